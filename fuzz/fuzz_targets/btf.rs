#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = karakoram_elf::btf::Btf::parse(data);
});
