//! Maps of the kernel: what other programs and user space also see, and what the kernel keeps small by itself.
//!
//! Values are copied in and out, so that no reference into a map ever exists: two lookups of one key are two
//! values. What is copied while another CPU writes may be partly old and partly new, as with every program that
//! uses maps without locks; what must change as a whole is for a [`crate::Mutex`].
//!
//! Keys and values are [`Plain`]: no pointer goes into a map or comes out of one.
//!
//! ```compile_fail
//! // A reference is nothing that bytes make.
//! use karakoram_extension::kernel_map;
//! kernel_map!(static NAMES: Hash<u32, &'static str>, 16);
//! ```
//!
//! ```compile_fail
//! // Nor are all bytes a `bool`.
//! use karakoram_extension::kernel_map;
//! kernel_map!(static SEEN: Hash<u32, bool>, 16);
//! ```
//!
//! ```compile_fail
//! // Nothing that is borrowed is inside.
//! use karakoram_extension::kernel_map;
//! kernel_map!(static COUNTS: Hash<u32, u64>, 16);
//! fn borrowed() -> &'static u64 {
//!     COUNTS.get(&1).as_ref().unwrap()
//! }
//! ```
//!
//! ```compile_fail
//! // The bounce is on the kernel's stack, which is small.
//! use karakoram_extension::kernel_map;
//! kernel_map!(static LARGE: Hash<u32, [u8; 4096]>, 16);
//! ```

#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod native;

use crate::host;
use crate::plain::Plain;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Most bytes of a key.
pub const MOST_KEY_BYTES: usize = 64;
/// Most bytes of a value.
pub const MOST_VALUE_BYTES: usize = 256;

/// Numbers of kinds, as the kernel has them.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const LRU_HASH: u32 = 9;

/// What the translator makes a map of; the calls name a map by its address.
#[repr(C)]
pub(crate) struct Definition {
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub entries: u32,
    /// On the host the map itself.
    #[cfg(not(target_arch = "wasm32"))]
    pub content: host::Content,
}

impl Definition {
    const fn new<K, V>(kind: u32, entries: u32) -> Definition {
        const { assert!(size_of::<K>() > 0 && size_of::<K>() <= MOST_KEY_BYTES, "keys have 1 to 64 bytes") };
        const { assert!(size_of::<V>() > 0 && size_of::<V>() <= MOST_VALUE_BYTES, "values have 1 to 256 bytes") };
        assert!(entries > 0, "a map has room for something");
        Definition {
            kind,
            key_bytes: size_of::<K>() as u32,
            value_bytes: size_of::<V>() as u32,
            entries,
            #[cfg(not(target_arch = "wasm32"))]
            content: host::Content::new(),
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub fn is_array(&self) -> bool {
        self.kind == ARRAY
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub fn forgets(&self) -> bool {
        self.kind == LRU_HASH
    }

    #[inline(always)]
    fn get<K: Plain, V: Plain>(&self, key: &K) -> Option<V> {
        let mut value = MaybeUninit::<V>::uninit();
        // SAFETY: key and value have the sizes of this map's.
        let found = unsafe { host::map_get(self, (&raw const *key).cast(), value.as_mut_ptr().cast()) };
        // SAFETY: it was written, and any bytes make such a value.
        (found != 0).then(|| unsafe { value.assume_init() })
    }

    #[inline(always)]
    fn set<K: Plain, V: Plain>(&self, key: &K, value: &V) -> bool {
        // SAFETY: key and value have the sizes of this map's.
        unsafe { host::map_set(self, (&raw const *key).cast(), (&raw const *value).cast()) == 0 }
    }
}

/// The map has no room for another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Values by key. Declared with [`crate::kernel_map!`].
pub struct Hash<K, V> {
    definition: Definition,
    holds: PhantomData<fn(K) -> V>,
}

/// Values by key, of which the kernel throws away those that were not used for long when there is no room: which
/// ones exactly it does not promise. Declared with [`crate::kernel_map!`].
pub struct Lru<K, V> {
    definition: Definition,
    holds: PhantomData<fn(K) -> V>,
}

/// Values by number, all there from the beginning, as zeros. Declared with [`crate::kernel_map!`].
pub struct Array<V> {
    definition: Definition,
    holds: PhantomData<fn() -> V>,
}

macro_rules! keyed {
    ($name:ident, $kind:expr) => {
        impl<K: Plain, V: Plain> $name<K, V> {
            /// For so many keys.
            #[doc(hidden)]
            pub const fn new(entries: u32) -> Self {
                Self { definition: Definition::new::<K, V>($kind, entries), holds: PhantomData }
            }

            /// A copy of the value.
            #[inline(always)]
            pub fn get(&self, key: &K) -> Option<V> {
                self.definition.get(key)
            }

            /// Sets a key's value.
            #[inline(always)]
            pub fn insert(&self, key: &K, value: &V) -> Result<(), Full> {
                if self.definition.set(key, value) { Ok(()) } else { Err(Full) }
            }

            /// Takes a key out; false when it was not there.
            #[inline(always)]
            pub fn remove(&self, key: &K) -> bool {
                // SAFETY: the key has the size of this map's.
                unsafe { host::map_remove(&self.definition, (&raw const *key).cast()) == 0 }
            }
        }
    };
}

keyed!(Hash, HASH);
keyed!(Lru, LRU_HASH);

impl<V: Plain> Array<V> {
    /// With so many values.
    #[doc(hidden)]
    pub const fn new(entries: u32) -> Array<V> {
        Array { definition: Definition::new::<u32, V>(ARRAY, entries), holds: PhantomData }
    }

    /// A copy of a value; `None` behind the end.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<V> {
        self.definition.get(&index)
    }

    /// Sets a value; false behind the end.
    #[inline(always)]
    pub fn set(&self, index: u32, value: &V) -> bool {
        self.definition.set(&index, value)
    }
}

/// Declares a map of the kernel, which user space sees by its name:
/// `kernel_map!(static FLOWS: Hash<u32, u64>, 1024)` has room for 1024 keys. Kinds are `Hash<K, V>`, `Lru<K, V>`
/// and `Array<V>`.
///
/// ```
/// use karakoram_extension::kernel_map;
/// kernel_map!(
///     /// Packets by sender.
///     static SENDERS: Hash<[u8; 4], u64>, 1024
/// );
/// assert_eq!(SENDERS.get(&[10, 0, 0, 1]), None);
/// SENDERS.insert(&[10, 0, 0, 1], &7).unwrap();
/// assert_eq!(SENDERS.get(&[10, 0, 0, 1]), Some(7));
/// ```
#[macro_export]
macro_rules! kernel_map {
    ($(#[$meta:meta])* $visibility:vis static $name:ident: $kind:ident<$($of:ty),+ $(,)?>, $entries:expr) => {
        #[cfg(target_os = "none")]
        compile_error!("maps of the kernel are for programs in BPF, not in a module");
        #[cfg(not(target_os = "none"))]
        $(#[$meta])*
        #[cfg_attr(target_arch = "wasm32", unsafe(export_name = concat!("kara_map_", stringify!($name))))]
        $visibility static $name: $crate::map::$kind<$($of),+> = $crate::map::$kind::new($entries);
    };
}
