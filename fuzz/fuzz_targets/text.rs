#![no_main]
use karakoram_bpf::text::{self, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let _ = text::desc::parse(source);
    let _ = text::maps::parse(source);
    for format in Format::ALL {
        if let Ok(program) = text::read(format, source, None, None)
            && let Ok(printed) = text::write(format, &program)
        {
            let again = text::read(format, &printed, None, None).expect("what was printed must parse");
            assert_eq!(text::write(format, &again).expect("prints again"), printed);
        }
    }
});
