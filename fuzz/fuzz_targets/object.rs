#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(object) = karakoram_elf::Object::parse(data.to_vec()) {
        assert_eq!(object.to_bytes(), data);
        for (function, _) in karakoram_elf::link::programs(&object) {
            let _ = karakoram_elf::link::link_function(&object, function, &Default::default());
        }
    }
});
