//! Records that programs put into a ring buffer (kernel `kernel/bpf/ringbuf.c`).

use super::Map;
use crate::errno::Errno;
use crate::error::KernelError;
use crate::sys::{Mapping, os};
use karakoram_bpf::map::MapType;

const HEADER_BYTES: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The reader of a ring buffer. There must be only one for each buffer.
#[derive(Debug)]
pub struct EventReader {
    /// The page with our position, in bytes since the beginning.
    consumer: Mapping,
    /// The page with the program's position, then the data, twice in a row so that no record wraps.
    producer: Mapping,
    page: usize,
    size: usize,
}

impl EventReader {
    /// Starts to read a ring buffer; None when the map is none.
    pub fn open(map: &Map) -> Result<Option<EventReader>, KernelError> {
        if map.def().kind != MapType::RINGBUF {
            return Ok(None);
        }
        let page = os::page_size();
        let size = map.def().max_entries as usize;
        let open = || {
            let consumer = Mapping::new(map.fd(), 0, page, true)?;
            let producer = Mapping::new(map.fd(), page, page + 2 * size, false)?;
            Ok(EventReader { consumer, producer, page, size })
        };
        open().map(Some).map_err(|e: Errno| map.error("read", e))
    }

    /// Takes out all records that are complete, oldest first.
    pub fn drain(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let mut records = Vec::new();
        let end = position(&self.producer)?;
        let start = position(&self.consumer)?;
        let mut at = start;
        while at < end {
            let place = self.page + (at as usize & (self.size - 1));
            let mut header = [0; 4];
            self.producer.read(place, &mut header)?;
            let header = u32::from_ne_bytes(header);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            if header & DISCARDED == 0 {
                let mut record = vec![0; length];
                self.producer.read(place + HEADER_BYTES, &mut record)?;
                records.push(record);
            }
            at += (HEADER_BYTES + length).next_multiple_of(8) as u64;
        }
        if at != start {
            self.consumer.write(0, &at.to_ne_bytes())?;
        }
        Ok(records)
    }
}

fn position(mapping: &Mapping) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    mapping.read(0, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
