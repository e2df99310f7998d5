//! Work on several things at once, with news of it to one listener.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// What is done with an item, telling news on the way.
pub type Work<'a, T, R, N> = dyn Fn(&T, &mut dyn FnMut(N)) -> R + Sync + 'a;

/// Does `work` on every item, `jobs` at once, each begun in order. Results are in the order of the
/// items. News goes to `listen` on this thread, in no particular order.
pub fn map<T: Sync, R: Send, N: Send>(
    items: &[T],
    jobs: usize,
    listen: &mut dyn FnMut(N),
    work: &Work<T, R, N>,
) -> Vec<R> {
    let jobs = jobs.clamp(1, items.len().max(1));
    if jobs == 1 {
        return items.iter().map(|item| work(item, listen)).collect();
    }
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (send, next, results) = (send.clone(), &next, &results);
            scope.spawn(move || {
                // Nobody listens any more only when the other side has panicked.
                let mut tell = |news| drop(send.send(news));
                while let Some((at, item)) = take(items, next) {
                    let result = work(item, &mut tell);
                    results.lock().unwrap_or_else(|e| e.into_inner()).push((at, result));
                }
            });
        }
        drop(send);
        receive.iter().for_each(listen);
    });
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    items.get(at).map(|item| (at, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        let items: Vec<u32> = (0..100).collect();
        for jobs in [0, 1, 3, 200] {
            let mut heard = 0;
            let squares = map(&items, jobs, &mut |n: u32| heard += n, &|i, tell| {
                tell(1);
                i * i
            });
            assert_eq!(squares, items.iter().map(|i| i * i).collect::<Vec<_>>());
            assert_eq!(heard, 100);
        }
        assert!(map(&[] as &[u32], 2, &mut |_: u32| {}, &|i, _| *i).is_empty());
    }
}
