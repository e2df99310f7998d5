//! Type, function and line information: accepted, refused with a reason, and quoted in refusals.

mod common;

use common::*;
use karakoram_bpf::hook::ProgramType;
use karakoram_kernel::btf::{Btf, BtfError};
use karakoram_kernel::load::{LoadError, LoadRequest, load};

const STRINGS: &[u8] = b"\0int\0first_byte\0prog.c\0return data[5];\0ctx\0";
const FUNCTION: u32 = 4;

/// Position of a text in the string section.
fn string(text: &str) -> u32 {
    let at = STRINGS.windows(text.len()).position(|w| w == text.as_bytes());
    at.expect("it is among the strings") as u32
}

/// `int first_byte(void *ctx)`: int (1), void * (2), prototype (3), function (4).
fn blob() -> Vec<u8> {
    let types: [&[u32]; 4] = [
        &[string("int"), 1 << 24, 4, 1 << 24 | 32],
        &[0, 2 << 24, 0],
        &[0, 13 << 24 | 1, 1, string("ctx"), 2],
        &[string("first_byte"), 12 << 24 | 1, 3],
    ];
    let types: Vec<u8> = types.concat().into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
    blob.extend([1, 0]);
    for n in [24, 0, types.len() as u32, types.len() as u32, STRINGS.len() as u32] {
        blob.extend(n.to_ne_bytes());
    }
    blob.extend(types);
    blob.extend(STRINGS);
    blob
}

#[test]
fn refusals_quote_the_source() {
    let Some(()) = permitted("refusals_quote_the_source") else { return };
    let btf = Btf::load(&blob()).unwrap_or_else(|e| panic!("{e}"));
    let slots = [ldxw(R2, R1, 0), ldxb(R0, R2, 5), exit()];
    let func_info: Vec<u8> = [0u32, FUNCTION].into_iter().flat_map(u32::to_ne_bytes).collect();
    let line = |insn: u32| [insn, string("prog.c"), string("return data[5];"), 7 << 10 | 2];
    let line_info: Vec<u8> = line(0).into_iter().flat_map(u32::to_ne_bytes).collect();
    let request = LoadRequest {
        btf: Some(&btf),
        func_info: &func_info,
        func_info_rec_size: 8,
        line_info: &line_info,
        line_info_rec_size: 16,
        ..LoadRequest::new("first_byte", ProgramType::XDP, &slots)
    };
    let Err(LoadError::Rejected(rejection)) = load(&request) else { panic!("it must be refused") };
    let source = rejection.analysis.source.expect("a source line");
    assert_eq!(source.text, "return data[5];");
    // Older kernels print the text alone.
    assert!(source.file.is_none_or(|f| f == "prog.c") && source.line.is_none_or(|l| l == 7));
    assert_eq!(rejection.analysis.insn, Some(1));
}

#[test]
fn records_of_odd_length_are_refused() {
    let Some(()) = permitted("records_of_odd_length_are_refused") else { return };
    let btf = Btf::load(&blob()).unwrap_or_else(|e| panic!("{e}"));
    let slots = [mov(R0, 0), exit()];
    for size in [0, 8, 16] {
        let request = LoadRequest {
            btf: Some(&btf),
            func_info: &[0; 9],
            func_info_rec_size: size,
            ..LoadRequest::new("t", ProgramType::XDP, &slots)
        };
        assert!(load(&request).is_err());
    }
}

#[test]
fn wrong_types_are_refused_with_a_reason() {
    let Some(()) = permitted("wrong_types_are_refused_with_a_reason") else { return };
    let mut wrong = blob();
    // The function's prototype becomes the integer.
    let at = wrong.len() - STRINGS.len() - 4;
    wrong[at] = 1;
    let error = Btf::load(&wrong).unwrap_err();
    assert!(matches!(error, BtfError::Rejected { .. }), "{error}");
    assert!(error.to_string().contains("Invalid type_id"), "{error}");
    assert!(Btf::load(&[]).is_err());
    assert!(Btf::load(&[1; 100]).is_err());
}
