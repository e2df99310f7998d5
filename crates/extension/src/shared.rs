//! What lives longer than a run, and is seen by all CPUs and by user space.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Attempts to get a lock before the run ends with a panic: some milliseconds. A lock's owner may have
/// been interrupted on this very CPU, and then waiting is in vain.
const MOST_ATTEMPTS: u32 = 100_000;
/// CPUs with a value of their own; further ones share.
const CPUS: usize = 64;

/// A value without pointers, which may therefore outlive a run and its heap. Derived with
/// `#[derive(Shared)]` for structures of such fields.
///
/// ```compile_fail
/// # use karakoram_extension::Mutex;
/// static NAMES: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// ```
///
/// ```compile_fail
/// # use karakoram_extension::Mutex;
/// static NAME: Mutex<&'static str> = Mutex::new("");
/// ```
///
/// # Safety
/// The type must hold no pointers and references.
pub unsafe trait Shared: Send + 'static {}

macro_rules! shared {
    ($($ty:ty)*) => { $(
        // SAFETY: numbers hold no pointers.
        unsafe impl Shared for $ty {}
    )* };
}

shared!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize bool char);
// SAFETY: there is nothing in it.
unsafe impl Shared for () {}
shared!(crate::Be16 crate::Be32 crate::Ethernet crate::Ipv4 crate::Ipv6 crate::Udp crate::Tcp);

// SAFETY: what is made of values without pointers has none.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}
// SAFETY: as above.
unsafe impl<T: Shared> Shared for Option<T> {}
// SAFETY: as above.
unsafe impl<A: Shared, B: Shared> Shared for (A, B) {}
// SAFETY: as above.
unsafe impl<A: Shared, B: Shared, C: Shared> Shared for (A, B, C) {}

/// A value that one run at a time has. A panic releases it.
///
/// There is no way to the value but through the lock, and two locks of one value exclude each other:
///
/// ```compile_fail
/// # use karakoram_extension::Mutex;
/// static TABLE: Mutex<[u32; 4]> = Mutex::new([0; 4]);
/// fn two() {
///     let entry = { let mut table = TABLE.lock(); &mut table[0] }; // the guard is gone
///     *entry = 1;
/// }
/// ```
///
/// ```compile_fail
/// # use karakoram_extension::Mutex;
/// static TABLE: Mutex<[u32; 4]> = Mutex::new([0; 4]);
/// fn twice() {
///     let mut table = TABLE.lock();
///     let (a, b) = (&mut table[0], &mut table[0]);
///     *a = 1;
///     *b = 2;
/// }
/// ```
///
/// ```compile_fail
/// # use karakoram_extension::Mutex;
/// static TABLE: Mutex<[u32; 4]> = Mutex::new([0; 4]);
/// fn unlocked() -> u32 {
///     TABLE[0]
/// }
/// ```
pub struct Mutex<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by whoever has set `word` alone.
unsafe impl<T: Shared> Sync for Mutex<T> {}

impl<T: Shared> Mutex<T> {
    /// A free one.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { word: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until nobody else has it. Panics when that takes too long: the owner may wait for us.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        for _ in 0..MOST_ATTEMPTS {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
        }
        panic!("a lock is not given back")
    }

    /// Takes it if nobody else has it.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // On record first: a run that ends in between must not leave it locked.
        let place = registry::enter(&self.word);
        let owner = registry::owner(place);
        if self.word.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(MutexGuard { mutex: self });
        }
        registry::leave(place);
        None
    }
}

/// A value that this run has. One word, so that functions return it without memory.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, see `Mutex`.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, see `Mutex`.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let owner = self.mutex.word.swap(0, Ordering::Release);
        registry::leave(registry::place(owner));
    }
}

/// The locks that a run holds, so that the runtime can give them back when it ends early.
#[cfg(any(target_arch = "wasm32", target_os = "none"))]
mod registry {
    use crate::layout::{HELD, HELD_BIT, LOCKS, MOST_LOCKS, OWNER_BITS, PAGE_BITS};
    use core::sync::atomic::AtomicU32;

    fn count() -> *mut u64 {
        (crate::host::control() + HELD) as *mut u64
    }

    fn slot(place: usize) -> *mut usize {
        (crate::host::control() + LOCKS + size_of::<usize>() * place) as *mut usize
    }

    /// What a lock's word says when this run has it: a number that is not 0, and no other CPU's.
    #[inline]
    pub fn owner(place: usize) -> u32 {
        let cpu = (crate::host::control() >> PAGE_BITS) as u32 & ((1 << OWNER_BITS) - 1);
        cpu | (place as u32) << OWNER_BITS | 1 << HELD_BIT
    }

    /// Where the lock is on record whose word says so.
    #[inline]
    pub fn place(owner: u32) -> usize {
        (owner >> OWNER_BITS) as usize % MOST_LOCKS
    }

    #[inline]
    #[track_caller]
    pub fn enter(word: &AtomicU32) -> usize {
        // SAFETY: the control page is this run's alone, and nothing else in Rust refers to it.
        unsafe {
            let mut place = count().read() as usize;
            if place < MOST_LOCKS {
                count().write(place as u64 + 1);
            } else {
                place = between();
                if place >= MOST_LOCKS {
                    panic!("more locks at a time than there is room for");
                }
            }
            slot(place).write((&raw const *word) as usize);
            place
        }
    }

    /// A place that is free below others that are in use, as there is when locks are handed on; [`MOST_LOCKS`] when
    /// there is none.
    #[cold]
    #[inline(never)]
    fn between() -> usize {
        // SAFETY: as above.
        (0..MOST_LOCKS).find(|place| unsafe { slot(*place).read() == 0 }).unwrap_or(MOST_LOCKS)
    }

    #[inline]
    pub fn leave(place: usize) {
        // SAFETY: as above.
        unsafe {
            slot(place).write(0);
            // Guards may be dropped in any order: room is found again from the top.
            let mut held = count().read() as usize;
            while held > 0 && slot(held - 1).read() == 0 {
                held -= 1;
            }
            count().write(held as u64);
        }
    }
}

#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
mod registry {
    use std::sync::atomic::AtomicU32;

    pub fn owner(_place: usize) -> u32 {
        1
    }

    pub fn place(_owner: u32) -> usize {
        0
    }

    pub fn enter(_word: &AtomicU32) -> usize {
        0
    }

    pub fn leave(_place: usize) {}
}

/// A value for each CPU.
pub struct PerCpu<T> {
    values: [Mutex<T>; CPUS],
}

impl<T: Shared + Copy> PerCpu<T> {
    /// The same on all.
    pub const fn new(value: T) -> PerCpu<T> {
        let mut values = [const { core::mem::MaybeUninit::<Mutex<T>>::uninit() }; CPUS];
        let mut cpu = 0;
        while cpu < CPUS {
            values[cpu].write(Mutex::new(value));
            cpu += 1;
        }
        // SAFETY: the loop has written all of them.
        PerCpu { values: unsafe { core::mem::transmute_copy(&values) } }
    }
}

impl<T: Shared> PerCpu<T> {
    /// This CPU's value. Panics where a program that was interrupted on this CPU is using it.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> MutexGuard<'_, T> {
        match self.values[crate::cpu() as usize % CPUS].try_lock() {
            Some(guard) => guard,
            None => panic!("the value of this CPU is in use"),
        }
    }
}

/// A counter that all CPUs share, and that user space reads by its name. Declared with [`crate::counter!`].
pub struct Counter {
    value: AtomicU64,
}

impl Counter {
    /// At zero.
    pub const fn new() -> Counter {
        Counter { value: AtomicU64::new(0) }
    }

    /// Counts.
    #[inline(always)]
    pub fn add(&self, count: u64) {
        self.value.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

/// Declares a [`Counter`] that `kara ext status` shows by its name: `counter!(static HITS);`
#[macro_export]
macro_rules! counter {
    ($(#[$meta:meta])* $visibility:vis static $name:ident) => {
        $(#[$meta])*
        #[cfg_attr(any(target_arch = "wasm32", target_os = "none"), unsafe(export_name = concat!("kara_static_counter_", stringify!($name))))]
        $visibility static $name: $crate::Counter = $crate::Counter::new();
    };
}
