//! Other forms of an extension, for kernels that refuse the first one: a ladder that loading goes down.
//!
//! The verifier looks at no more than a million instructions, and kernels differ in how soon they merge what they
//! have seen. So an object carries itself several times, compressed: as it was built, before anything optimized
//! it; with functions apart and variables in memory, which takes the verifier least and runs slower; and without
//! what makes the verifier forget, in case a kernel does not get along with that.

use crate::build::{BuildOptions, Built, translate_to_object};
use crate::error::InstallError;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use karakoram_elf::container::Container;
use karakoram_translator::Options;
use karakoram_translator::launder::Launder;
use karakoram_translator::toolchain::Toolchain;
use std::io::{Read, Write};

/// How sections of other forms begin.
const SECTION: &str = ".kara.form.";
/// Most bytes of a form: larger ones are no objects of ours.
const MOST_BYTES: u64 = 64 << 20;

/// A form of an extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Short name, which is also the end of its section's.
    pub name: &'static str,
    /// In words.
    pub text: &'static str,
}

/// What an object is by itself.
pub const FIRST: Form = Form { name: "first", text: "as it is in the object" };
const BUILT: Form = Form { name: "built", text: "as it was built, without rewrites" };
const APART: Form = Form { name: "apart", text: "functions apart, variables in memory" };
const PLAIN: Form = Form { name: "plain", text: "nothing hidden from the verifier" };

/// The ladder, from the top.
const OTHERS: [Form; 3] = [BUILT, APART, PLAIN];

/// Operators of the largest functions that are put where they are called from, once or several times, in
/// [`APART`].
const LARGEST_APART: (usize, usize) = (60, 12);

/// How a form is built.
fn options_of(form: Form, options: &BuildOptions) -> BuildOptions {
    let apart = Options {
        inline_single: LARGEST_APART.0,
        inline_small: LARGEST_APART.1,
        most_frame_in_loops: 0,
        most_fused: 0,
        ..options.translation.clone()
    };
    match form {
        APART => BuildOptions { translation: apart, launder: Launder::Comparisons, ..options.clone() },
        PLAIN => BuildOptions { launder: Launder::None, ..options.clone() },
        _ => options.clone(),
    }
}

/// Puts the other forms into an object. A form that cannot be built is left out.
pub(crate) fn add(
    toolchain: &Toolchain,
    wasm: &[u8],
    options: &BuildOptions,
    built: Built,
) -> Result<Built, InstallError> {
    let other = |form: Form| {
        let object = translate_to_object(toolchain, wasm, &options_of(form, options)).ok()?.object;
        Some((form, object)).filter(|(_, object)| *object != built.object)
    };
    let (apart, plain) = std::thread::scope(|scope| {
        let apart = scope.spawn(|| other(APART));
        let plain = other(PLAIN);
        (apart.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), plain)
    });
    let forms = [Some((BUILT, built.object.clone())), apart, plain];
    let sections: Vec<(String, Vec<u8>)> = forms
        .into_iter()
        .flatten()
        .map(|(form, object)| (format!("{SECTION}{}", form.name), compressed(&object)))
        .collect();
    Ok(Built { object: toolchain.with_sections(&built.object, &sections)?, ..built })
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes everything")
}

/// The other forms in an object, from the top of the ladder. What does what the object itself does, and no
/// otherwise, is not among them.
pub fn others(object: &[u8]) -> Result<Vec<(Form, Vec<u8>)>, InstallError> {
    let parsed = |bytes: &[u8]| Container::parse(bytes).map_err(|e| InstallError::Object(e.to_string()));
    let container = parsed(object)?;
    let code = |container: &Container| -> Vec<Vec<u8>> {
        container.sections.iter().filter(|s| s.is_code()).map(|s| s.data.clone()).collect()
    };
    let mut found = Vec::new();
    for form in OTHERS {
        let Some(at) = container.find(&format!("{SECTION}{}", form.name)) else { continue };
        let mut bytes = Vec::new();
        DeflateDecoder::new(&container.sections[at].data[..])
            .take(MOST_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|e| InstallError::Object(format!("its form \"{}\" is damaged: {e}", form.name)))?;
        if code(&parsed(&bytes)?) != code(&container) {
            found.push((form, bytes));
        }
    }
    Ok(found)
}
