//! The table of helper contracts, from kernel `include/uapi/linux/bpf.h` and the `bpf_func_proto` of each helper.

use super::Arg::*;
use super::{Contract, Returns, Touch};

/// Sorted by number.
pub(super) static CONTRACTS: &[Contract] = &[
    Contract {
        id: 1,
        name: "map_lookup_elem",
        args: &[Map, Key],
        returns: Returns::MapValueOrNull,
        packet: Touch::None,
        shared: Touch::None,
        context: Touch::None,
        droppable: true,
    },
    Contract {
        id: 2,
        name: "map_update_elem",
        args: &[Map, Key, Value, Plain],
        returns: Returns::Scalar,
        packet: Touch::None,
        shared: Touch::Writes,
        context: Touch::None,
        droppable: false,
    },
    Contract {
        id: 3,
        name: "map_delete_elem",
        args: &[Map, Key],
        returns: Returns::Scalar,
        packet: Touch::None,
        shared: Touch::Writes,
        context: Touch::None,
        droppable: false,
    },
];

/// By number.
pub(super) static NAMES: &[&str] = &["unspec", "map_lookup_elem", "map_update_elem", "map_delete_elem"];
