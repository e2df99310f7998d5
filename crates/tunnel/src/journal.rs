//! Who is told of events and frames: a file of lines, and whoever has subscribed.

use crate::control::{FRAME_RECORD, LINE_RECORD, Subscriber};
use karakoram_link::{Event, Log};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

#[derive(Debug, Default)]
struct Listeners {
    file: Option<BufWriter<File>>,
    subscribers: Vec<Subscriber>,
}

/// Shared by the sender, the receiver and the end that drives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Rc<RefCell<Listeners>>);

impl Journal {
    pub(crate) fn to_file(&self, file: File) {
        self.0.borrow_mut().file = Some(BufWriter::with_capacity(1 << 16, file));
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        self.0.borrow_mut().subscribers.push(subscriber);
    }

    fn is_heard(&self) -> bool {
        let listeners = self.0.borrow();
        listeners.file.is_some() || !listeners.subscribers.is_empty()
    }

    /// A line of the log.
    pub(crate) fn line(&self, now_ps: u64, text: &str) {
        let mut listeners = self.0.borrow_mut();
        let line = format!("{}.{:09} {text}\n", now_ps / 1_000_000_000_000, now_ps / 1000 % 1_000_000_000);
        if let Some(file) = &mut listeners.file {
            let _ = file.write_all(line.as_bytes());
        }
        listeners.subscribers.iter_mut().for_each(|s| s.put(LINE_RECORD, now_ps, line.as_bytes()));
    }

    /// A frame on the line.
    pub(crate) fn frame(&self, now_ps: u64, bytes: &[u8]) {
        let mut listeners = self.0.borrow_mut();
        listeners.subscribers.iter_mut().for_each(|s| s.put(FRAME_RECORD, now_ps, bytes));
    }

    /// Hands out what was put; those who have gone are forgotten.
    pub(crate) fn flush(&self) {
        self.0.borrow_mut().subscribers.retain_mut(Subscriber::flush);
    }

    /// Whether something waits for a slow reader.
    pub(crate) fn has_subscribers(&self) -> bool {
        !self.0.borrow().subscribers.is_empty()
    }

    pub(crate) fn close(&self) -> io::Result<()> {
        self.0.borrow_mut().file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Log for Journal {
    #[inline]
    fn event(&mut self, now_ps: u64, event: Event) {
        if self.is_heard() {
            self.line(now_ps, &event.to_string());
        }
    }
}
