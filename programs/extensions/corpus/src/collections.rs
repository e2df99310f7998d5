//! Data structures of the standard library and hand-made ones.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap, LinkedList, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u8);
struct Rectangle(u8, u8);
struct Triangle(u8, u8);

impl Shape for Square {
    fn area(&self) -> u64 {
        self.0 as u64 * self.0 as u64
    }
}

impl Shape for Rectangle {
    fn area(&self) -> u64 {
        self.0 as u64 * self.1 as u64
    }
}

impl Shape for Triangle {
    fn area(&self) -> u64 {
        self.0 as u64 * self.1 as u64 / 2
    }
}

#[derive(Default)]
struct Trie {
    children: BTreeMap<u8, Trie>,
    count: u32,
}

impl Trie {
    fn insert(&mut self, key: &[u8]) {
        let mut node = self;
        for byte in key {
            node = node.children.entry(*byte & 7).or_default();
            node.count += 1;
        }
    }

    fn weight(&self) -> u64 {
        self.count as u64 + self.children.values().map(|c| 3 * c.weight()).fold(0, u64::wrapping_add)
    }
}

fn find(parents: &mut [u8], mut at: u8) -> u8 {
    while parents[at as usize] != at {
        parents[at as usize] = parents[parents[at as usize] as usize];
        at = parents[at as usize];
    }
    at
}

programs! {
    fn vec_growth(bytes) {
        let mut v = Vec::new();
        for (i, byte) in bytes.iter().enumerate() {
            v.push(*byte as u32 * i as u32);
            if byte % 16 == 0 {
                v.extend_from_within(..v.len() / 2);
                v.truncate(400);
            }
        }
        v.iter().fold(v.len() as u64, |h, x| h.wrapping_mul(31) + *x as u64)
    }

    fn vec_of_vec(bytes) {
        let mut groups: Vec<Vec<u8>> = vec![Vec::new(); 8];
        bytes.iter().for_each(|b| groups[(*b % 8) as usize].push(*b));
        groups.iter().map(|g| g.iter().rev().fold(1u64, |h, b| h.wrapping_mul(17) ^ *b as u64)).fold(0, u64::wrapping_add)
    }

    fn btree_map(bytes) {
        let mut map = BTreeMap::new();
        for (i, byte) in bytes.iter().enumerate() {
            *map.entry(*byte).or_insert(0u64) += i as u64;
        }
        map.remove(&0);
        map.iter().fold(0u64, |h, (k, v)| h.wrapping_mul(131) + *k as u64 * v)
    }

    fn btree_set(bytes) {
        let (a, b) = bytes.split_at(bytes.len() / 2);
        let (a, b): (BTreeSet<u8>, BTreeSet<u8>) = (a.iter().copied().collect(), b.iter().copied().collect());
        a.intersection(&b).chain(a.difference(&b)).fold(a.len() as u64, |h, x| h.wrapping_mul(7) + *x as u64)
    }

    fn btree_range(bytes) {
        let map: BTreeMap<u8, usize> = bytes.iter().enumerate().map(|(i, b)| (*b, i)).collect();
        let (low, high) = (bytes.first().copied().unwrap_or(0), bytes.last().copied().unwrap_or(0));
        let (low, high) = (low.min(high), low.max(high));
        map.range(low..=high).map(|(k, v)| *k as u64 ^ *v as u64).sum()
    }

    fn binary_heap(bytes) {
        let mut heap = BinaryHeap::new();
        let mut sum = 0u64;
        for byte in bytes {
            heap.push(core::cmp::Reverse(*byte));
            if heap.len() > 10 {
                sum = sum * 3 % 1_000_000_007 + heap.pop().map_or(0, |r| r.0 as u64);
            }
        }
        sum
    }

    fn deque(bytes) {
        let mut queue = VecDeque::new();
        for byte in bytes {
            match byte % 3 {
                0 => queue.push_back(*byte),
                1 => queue.push_front(*byte),
                _ => drop(queue.pop_front()),
            }
        }
        queue.rotate_left(queue.len() / 3);
        queue.iter().fold(0u64, |h, b| h.wrapping_mul(257) + *b as u64)
    }

    fn linked_list(bytes) {
        let mut list: LinkedList<u8> = bytes.iter().take(60).copied().collect();
        let mut tail = list.split_off(list.len() / 2);
        tail.append(&mut list);
        tail.iter().fold(0u64, |h, b| h.wrapping_mul(257) + *b as u64)
    }

    fn boxed_dyn(bytes) {
        let shapes: Vec<Box<dyn Shape>> = bytes.chunks_exact(2).map(|c| -> Box<dyn Shape> {
            match c[0] % 3 {
                0 => Box::new(Square(c[1])),
                1 => Box::new(Rectangle(c[0], c[1])),
                _ => Box::new(Triangle(c[0], c[1])),
            }
        }).collect();
        shapes.iter().map(|s| s.area()).sum()
    }

    fn option_chain(bytes) {
        let first = bytes.iter().find(|b| **b > 100).and_then(|b| b.checked_sub(50)).filter(|b| b % 2 == 0);
        first.map_or(0, |b| b as u64)
    }

    fn string_builder(bytes) {
        let mut text = String::new();
        for byte in bytes.iter().take(64) {
            text.push(char::from(b'a' + byte % 26));
            if byte % 5 == 0 {
                text.push_str("é-");
            }
        }
        text.chars().rev().filter(|c| c.is_alphabetic()).map(|c| c as u64).fold(0, |h, c| h * 31 % 1_000_003 + c)
    }

    fn string_split(bytes) {
        let text: String = bytes.iter().map(|b| char::from(32 + b % 90)).collect();
        let words: Vec<&str> = text.split(['A', ' ', ',']).filter(|w| !w.is_empty()).collect();
        let longest = words.iter().max_by_key(|w| w.len()).map_or("", |w| w.trim());
        (words.len() as u64) << 32 | longest.len() as u64
    }

    fn char_counts(bytes) {
        let mut counts: BTreeMap<char, u32> = BTreeMap::new();
        String::from_utf8_lossy(bytes).chars().for_each(|c| *counts.entry(c).or_default() += 1);
        counts.iter().fold(0u64, |h, (c, n)| h.wrapping_mul(31).wrapping_add(*c as u64 * *n as u64))
    }

    fn hash_table(bytes) {
        let mut buckets: Vec<Vec<(u8, u32)>> = vec![Vec::new(); 16];
        for byte in bytes {
            let bucket = &mut buckets[(byte.wrapping_mul(37) >> 4) as usize];
            match bucket.iter_mut().find(|(k, _)| k == byte) {
                Some((_, count)) => *count += 1,
                None => bucket.push((*byte, 1)),
            }
        }
        buckets.iter().flatten().map(|(k, n)| *k as u64 * *n as u64 * *n as u64).sum()
    }

    fn open_addressing(bytes) {
        let mut table = [None::<(u8, u16)>; 64];
        let mut lost = 0u64;
        for byte in bytes {
            let start = *byte as usize * 7 % 64;
            let place = (0..8).map(|i| (start + i) % 64).find(|p| table[*p].is_none_or(|(k, _)| k == *byte));
            match place {
                Some(at) => table[at] = Some((*byte, table[at].map_or(1, |(_, n)| n + 1))),
                None => lost += 1,
            }
        }
        table.iter().flatten().fold(lost, |h, (k, n)| h.wrapping_mul(17) + *k as u64 * *n as u64)
    }

    fn trie(bytes) {
        let mut trie = Trie::default();
        bytes.chunks(4).take(20).for_each(|key| trie.insert(key));
        trie.weight()
    }

    fn lru_order(bytes) {
        let mut recent: Vec<u8> = Vec::new();
        let mut hits = 0u64;
        for byte in bytes {
            match recent.iter().position(|b| b == byte) {
                Some(at) => {
                    recent.remove(at);
                    hits += 1;
                }
                None if recent.len() == 16 => drop(recent.remove(0)),
                None => {}
            }
            recent.push(*byte);
        }
        recent.iter().fold(hits, |h, b| h.wrapping_mul(257) + *b as u64)
    }

    fn ring_buffer(bytes) {
        let (mut ring, mut head) = ([0u8; 16], 0usize);
        for byte in bytes {
            ring[head % ring.len()] ^= *byte;
            head += 1 + *byte as usize % 3;
        }
        ring.iter().cycle().skip(head % 16).take(16).fold(0u64, |h, b| h.wrapping_mul(31) + *b as u64)
    }

    fn bitset(bytes) {
        let mut set = [0u64; 4];
        bytes.iter().for_each(|b| set[*b as usize / 64] |= 1 << (b % 64));
        let next = (0..256usize).find(|i| set[i / 64] >> (i % 64) & 1 == 0).unwrap_or(256);
        set.iter().map(|w| w.count_ones() as u64).sum::<u64>() << 16 | next as u64
    }

    fn union_find(bytes) {
        let mut parents: [u8; 32] = core::array::from_fn(|i| i as u8);
        for pair in bytes.chunks_exact(2) {
            let (a, b) = (find(&mut parents, pair[0] % 32), find(&mut parents, pair[1] % 32));
            parents[a as usize] = b;
        }
        (0..32).filter(|i| parents[*i as usize] == *i).count() as u64
    }

    fn matrix(bytes) {
        let mut a = [[0u32; 6]; 6];
        for (i, byte) in bytes.iter().take(36).enumerate() {
            a[i / 6][i % 6] = *byte as u32;
        }
        let mut square = [[0u32; 6]; 6];
        for i in 0..6 {
            for j in 0..6 {
                square[i][j] = (0..6).map(|k| a[i][k].wrapping_mul(a[k][j])).fold(0, u32::wrapping_add);
            }
        }
        (0..6).map(|i| square[i][i] as u64).sum()
    }

    fn sparse(bytes) {
        let mut cells: BTreeMap<(u8, u8), i32> = BTreeMap::new();
        for c in bytes.chunks_exact(3) {
            cells.entry((c[0] % 16, c[1] % 16)).and_modify(|v| *v -= c[2] as i32).or_insert(c[2] as i32);
        }
        cells.retain(|_, v| *v != 0);
        let text: Vec<String> = cells.values().take(4).map(|v| v.to_string()).collect();
        cells.len() as u64 * 1000 + text.concat().len() as u64
    }
}
