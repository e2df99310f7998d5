//! Packet programs in safe Rust, of every kind: what people write when nothing tells them how the
//! verifier thinks. Each must load, and must do to every packet what it does on the host.
//!
//! Most compute a number from the bytes of the packet and write it over the first eight.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use karakoram_extension::{Xdp, XdpVerdict};

/// Longest part of a packet that programs look at.
const MOST_BYTES: usize = 256;

/// Runs a function on the packet's bytes and writes the result over the first eight.
#[inline(always)]
fn answer(packet: &mut Xdp, compute: impl FnOnce(&[u8]) -> u64) -> XdpVerdict {
    let mut buffer = [0; MOST_BYTES];
    let result = compute(packet.bytes(&mut buffer));
    match packet.set_be64(0, result) {
        true => XdpVerdict::Tx,
        false => XdpVerdict::Drop,
    }
}

/// A program that computes a number from the packet's bytes.
macro_rules! programs {
    ($($(#[$meta:meta])* fn $name:ident($bytes:ident) $body:block)*) => { $(
        $(#[$meta])*
        #[karakoram_extension::xdp]
        pub fn $name(packet: &mut karakoram_extension::Xdp) -> karakoram_extension::XdpVerdict {
            crate::answer(packet, |$bytes: &[u8]| $body)
        }
    )* };
}

/// A program by name.
pub type Program = (&'static str, fn(&mut Xdp) -> XdpVerdict);

/// Lists the programs of the modules.
macro_rules! list {
    ($(#[$meta:meta])* $list:ident: $($module:ident: $($name:ident)*;)*) => {
        $(pub mod $module;)*

        $(#[$meta])*
        pub const $list: &[Program] = &[$($((stringify!($name), $module::$name)),*),*];
    };
}

list! {
    /// Programs that need nothing but the packet.
    PROGRAMS:
    parsing: ethernet_kind vlan_stack ipv4_header ipv4_options udp_ports tcp_flags tcp_options ipv6_extensions
        dns_question dns_labels tls_server_name http_request memcached_command arp_sender icmp_echo
        quic_header dhcp_options gre_inner vxlan_network ntp_fields json_depth number_list;
    checksums: internet_checksum crc32_bitwise crc32_table adler32 fletcher16 fnv1a murmur_mix siphash jenkins
        xxhash32 luhn parity sha256_block md5_like;
    sorting: bubble insertion selection merge quick heap_sorted std_sort std_sort_unstable sort_by_key_desc
        radix counting binary_search median dedup top_three;
    collections: vec_growth vec_of_vec btree_map btree_set btree_range binary_heap deque linked_list boxed_dyn
        option_chain string_builder string_split char_counts hash_table open_addressing trie lru_order
        ring_buffer bitset union_find matrix sparse;
    recursion: fibonacci ackermann factorial depth_first tree_sum expression_value permutations queens
        mutual_even flood_fill hanoi palindrome gcd subset_sums;
    formatting: decimal hexadecimal padded debug_struct joined parse_decimal float_free ipv4_text;
    machines: token_bucket state_machine_tcp bracket_match run_length base64 huffman_lengths lz_match
        regex_like longest_prefix aho_like moving_average bloom count_min sliding_window lfsr brainfuck
        stack_machine closures iterators many_arguments generics wide_multiply bit_tricks saturating
        shared_counter shared_table per_cpu_state headers_rewrite swap_addresses grow_and_trim;
    protocols: client_hello quic_coalesced dhcp_lease header_compression;
    codecs: lz4_block deflate_codes base64_both_ways siphash_of_structures lzw_codes chacha20 reed_solomon;
    languages: json_values pattern_matcher debug_of_nested quoted_table stack_language;
    structures: flow_table event_queue dijkstra counted_references filter_chain typed_states cache_list
        address_routes big_numbers modular_powers;
    refused: cow_text interval_merge determinant wide_division poly1305 aes128 entropy;
}

list! {
    /// Programs with maps of the kernel, which modules do not have.
    #[cfg(not(target_os = "none"))]
    MAP_PROGRAMS:
    maps: flows_by_source histogram recent_senders chosen_map map_until_full;
}
