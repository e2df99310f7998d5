//! Sorting and searching.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

fn digest<T: Copy + Into<u64>>(values: &[T]) -> u64 {
    values.iter().fold(values.len() as u64, |h, v| h.wrapping_mul(0x9e37_79b9).wrapping_add((*v).into()))
}

fn merged(values: &[u8]) -> Vec<u8> {
    if values.len() < 2 {
        return values.to_vec();
    }
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = (merged(left), merged(right));
    let (mut a, mut b, mut out) = (left.iter().peekable(), right.iter().peekable(), Vec::new());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        out.push(if x <= y { *a.next().expect("peeked") } else { *b.next().expect("peeked") });
    }
    out.extend(a);
    out.extend(b);
    out
}

fn quicksort(values: &mut [u8]) {
    let [_, .., pivot] = *values else { return };
    let last = values.len() - 1;
    let mut store = 0;
    for i in 0..last {
        if values[i] < pivot {
            values.swap(i, store);
            store += 1;
        }
    }
    values.swap(store, last);
    let (left, right) = values.split_at_mut(store);
    quicksort(left);
    quicksort(&mut right[1..]);
}

programs! {
    fn bubble(bytes) {
        let mut v = bytes.to_vec();
        v.truncate(48);
        for end in (1..v.len()).rev() {
            for i in 0..end {
                if v[i] > v[i + 1] {
                    v.swap(i, i + 1);
                }
            }
        }
        digest(&v)
    }

    fn insertion(bytes) {
        let mut v: Vec<u8> = Vec::with_capacity(64);
        for byte in bytes.iter().take(64) {
            let at = v.iter().position(|x| x > byte).unwrap_or(v.len());
            v.insert(at, *byte);
        }
        digest(&v)
    }

    fn selection(bytes) {
        let mut v = [0u8; 40];
        let length = bytes.len().min(40);
        v[..length].copy_from_slice(&bytes[..length]);
        for i in 0..length {
            let least = (i..length).min_by_key(|j| v[*j]).unwrap_or(i);
            v.swap(i, least);
        }
        digest(&v)
    }

    fn merge(bytes) { digest(&merged(bytes)) }

    fn quick(bytes) {
        let mut v = bytes.to_vec();
        quicksort(&mut v);
        digest(&v)
    }

    fn heap_sorted(bytes) {
        let mut heap: BinaryHeap<u8> = bytes.iter().copied().collect();
        let mut v = Vec::new();
        while let Some(most) = heap.pop() {
            v.push(most);
        }
        digest(&v)
    }

    fn std_sort(bytes) {
        let mut v: Vec<u16> = bytes.windows(2).map(|w| u16::from_be_bytes([w[0], w[1]])).collect();
        v.sort();
        digest(&v)
    }

    fn std_sort_unstable(bytes) {
        let mut v = bytes.to_vec();
        v.sort_unstable();
        digest(&v)
    }

    fn sort_by_key_desc(bytes) {
        let mut v: Vec<(u8, u8)> = bytes.chunks_exact(2).map(|c| (c[0], c[1])).collect();
        v.sort_by_key(|(a, b)| (core::cmp::Reverse(*b), *a));
        v.iter().fold(0u64, |h, (a, b)| h.wrapping_mul(65599) + *a as u64 * 256 + *b as u64)
    }

    fn radix(bytes) {
        let mut v: Vec<u16> = bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        for shift in [0, 4, 8, 12] {
            let mut buckets: [Vec<u16>; 16] = Default::default();
            v.drain(..).for_each(|x| buckets[(x >> shift & 15) as usize].push(x));
            v.extend(buckets.into_iter().flatten());
        }
        digest(&v)
    }

    fn counting(bytes) {
        let mut counts = [0u16; 256];
        bytes.iter().for_each(|b| counts[*b as usize] += 1);
        let sorted: Vec<u8> = (0..=255u8).flat_map(|b| core::iter::repeat_n(b, counts[b as usize] as usize)).collect();
        digest(&sorted)
    }

    fn binary_search(bytes) {
        let table: Vec<u8> = (0..64).map(|i| i * 4).collect();
        bytes.iter().map(|b| match table.binary_search(b) {
            Ok(at) => at as u64,
            Err(at) => 100 + at as u64,
        }).sum()
    }

    fn median(bytes) {
        let mut v = bytes.to_vec();
        let middle = v.len() / 2;
        if v.is_empty() { 0 } else { *v.select_nth_unstable(middle).1 as u64 }
    }

    fn dedup(bytes) {
        let mut v = bytes.to_vec();
        v.dedup_by_key(|b| *b >> 4);
        digest(&v)
    }

    fn top_three(bytes) {
        let mut top = [0u8; 3];
        for byte in bytes {
            if let Some(at) = top.iter().position(|t| byte > t) {
                top[at..].rotate_right(1);
                top[at] = *byte;
            }
        }
        digest(&top)
    }
}
