//! The sample inputs in `tests/inputs/k2`: read, written back in kind, and torn by random edits.

mod text_generator;

use karakoram_bpf::hook::Hook;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::{self, Format, desc, maps};
use std::fs;
use std::path::PathBuf;
use text_generator::Random;

/// Path without ending, ending, slots, bytes of the packet.
const SAMPLES: [(&str, &str, usize, u32); 6] = [
    ("hello/benchmark", "k2", 3, 2),
    ("k2/before", "k2", 12, 2),
    ("k2/after", "k2", 12, 2),
    ("bpf/before", "bpf", 12, 4),
    ("bpf/after", "bpf", 12, 4),
    ("parameters/benchmark", "bpf", 16, 4),
];

fn sample(stem: &str, ending: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/inputs/k2").join(format!("{stem}.{ending}"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn read(stem: &str, ending: &str) -> Program {
    let format = Format::of_path(&format!("{stem}.{ending}")).expect("the ending is known");
    let (desc, maps) = (sample(stem, "desc"), sample(stem, "maps"));
    text::read(format, &sample(stem, ending), Some(&desc), Some(&maps)).unwrap_or_else(|e| panic!("{stem}: {e}"))
}

#[test]
fn samples_are_read_whole() {
    for (stem, ending, slots, bytes) in SAMPLES {
        let program = read(stem, ending);
        assert_eq!(program.slots(), slots, "{stem}");
        assert_eq!(program.functions.len(), 1, "{stem}");
        assert_eq!(program.functions[0].entry, karakoram_bpf::program::Entry::Hook(Hook::Buffer(bytes)), "{stem}");
        assert_eq!(program.maps.len(), 1, "{stem}");
        assert_eq!(Format::of_source(&sample(stem, ending)), Format::of_path(ending_path(ending)).unwrap(), "{stem}");
    }
}

fn ending_path(ending: &str) -> &'static str {
    if ending == "k2" { "x.k2" } else { "x.bpf" }
}

#[test]
fn samples_are_written_back_in_kind() {
    for (stem, ending, _, bytes) in SAMPLES {
        let program = read(stem, ending);
        let format = Format::of_path(ending_path(ending)).unwrap();
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(words(&text::write(format, &program).unwrap()), words(&sample(stem, ending)), "{stem}");
        assert_eq!(words(&maps::print(&program.maps).unwrap()), words(&sample(stem, "maps")), "{stem}");
        assert_eq!(words(&text::write_desc(&program, bytes).unwrap()), words(&sample(stem, "desc")), "{stem}");
    }
}

#[test]
fn samples_pass_through_every_format() {
    for (stem, ending, ..) in SAMPLES {
        let program = read(stem, ending);
        for format in Format::ALL {
            let text = text::write(format, &program).unwrap();
            let (desc, maps) = (sample(stem, "desc"), sample(stem, "maps"));
            // Assembly has its maps with it.
            let maps = (format != Format::Asm).then_some(maps.as_str());
            let back = text::read(format, &text, Some(&desc), maps).unwrap_or_else(|e| panic!("{stem}: {e}\n{text}"));
            assert_eq!(back, program, "{stem} as {format:?}");
        }
    }
}

/// Random edits: bytes changed, removed, doubled, pieces of other texts put in. Nothing may panic, and
/// what is read must be printable and read back the same.
#[test]
fn torn_texts_are_refused_politely() {
    let mut random = Random::new(5);
    let mut texts: Vec<(Format, String)> = Vec::new();
    for (stem, ending, ..) in SAMPLES {
        let program = read(stem, ending);
        for format in Format::ALL {
            texts.push((format, text::write(format, &program).unwrap()));
        }
    }
    for _ in 0..10 {
        texts.push((Format::Asm, text::asm::print(&random.program())));
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/text");
    for (file, format) in
        [("assembly", Format::Asm), ("listings", Format::Asm), ("macros", Format::Macros), ("k2", Format::K2)]
    {
        let source = fs::read_to_string(folder.join(format!("{file}.txt"))).unwrap();
        let tests = source.split("\ntest ").filter_map(|t| t.split_once('\n'));
        texts.extend(tests.map(|(_, t)| (format, t.split("\n=>").next().unwrap_or_default().to_string())));
    }
    let sidecars = (sample("hello/benchmark", "desc"), sample("hello/benchmark", "maps"));
    let mut accepted = 0;
    for round in 0..30_000 {
        let (format, source) = &texts[round % texts.len()];
        let torn = tear(source, &mut random);
        if let Ok(program) = text::read(*format, &torn, None, None) {
            accepted += 1;
            let again = text::asm::print(&program);
            let back = text::asm::parse(&again).unwrap_or_else(|e| panic!("{e}\nfrom\n{torn}\nvia\n{again}"));
            assert_eq!(back, program, "from\n{torn}\nvia\n{again}");
        }
        let _ = text::asm::parse_insns(&torn);
        let _ = Format::of_source(&torn);
        if round % 10 == 0 {
            let _ = desc::parse(&tear(&sidecars.0, &mut random));
            let _ = maps::parse(&tear(&sidecars.1, &mut random));
        }
    }
    assert!(accepted > 500, "only {accepted} edits left a program");
}

fn tear(source: &str, random: &mut Random) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..1 + random.below(2) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            // Other numbers are the edits that are most often accepted.
            _ if bytes[at].is_ascii_digit() => bytes[at] = random.pick(b"0123456789"),
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] = random.pick(b"0123456789-+*()[]{}<>=&|.,:;#/\"\\ \nrwxXlL@"),
            2 => drop(bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len()))),
            3 => bytes.insert(at, random.pick(b"0123456789-+*()[]{}<>=&|.,:;#/\"\\ \nrwxXlL@")),
            _ => {
                let end = (at + random.below(20)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
