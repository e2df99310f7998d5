//! Programs that do nothing. The same in C are in `empty.c`.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use karakoram_extension::{Xdp, XdpVerdict, xdp};

macro_rules! empty {
    ($($name:ident)*) => { $(
        /// Nothing.
        #[xdp]
        pub fn $name(_packet: &mut Xdp) -> XdpVerdict {
            XdpVerdict::Pass
        }
    )* };
}

empty! { empty1 empty2 empty3 empty4 empty5 empty6 empty7 empty8 }
