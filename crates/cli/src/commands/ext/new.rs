//! `kara ext new`: a crate with one program and one test.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use serde_json::json;
use std::path::PathBuf;

const MANIFEST: &str = "\
[package]
name = \"NAME\"
version = \"0.1.0\"
edition = \"2024\"

[dependencies]
# Of the version of kara that builds this; `kara ext build` puts it there.
karakoram-extension = { path = \".kara/extension\" }

[workspace]
";

const SOURCE: &str = "\
//! Counts packets by protocol, and lets them pass.

#![cfg_attr(not(test), no_std)]

use karakoram_extension::{Ethernet, Xdp, XdpVerdict, counter, xdp};

counter!(static IPV4);
counter!(static IPV6);
counter!(static OTHER);

#[xdp]
pub fn PROGRAM(packet: &mut Xdp) -> XdpVerdict {
    let Some(header) = packet.read::<Ethernet>(0) else {
        return XdpVerdict::Drop;
    };
    match header.kind.get() {
        0x0800 => IPV4.add(1),
        0x86dd => IPV6.add(1),
        _ => OTHER.add(1),
    }
    XdpVerdict::Pass
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_extension::testing;

    #[test]
    fn ipv4_is_counted() {
        let mut packet = vec![0; 60];
        packet[12..14].copy_from_slice(&[0x08, 0x00]);
        assert_eq!(testing::xdp(PROGRAM, &mut packet), XdpVerdict::Pass);
        assert_eq!(IPV4.get(), 1);
    }
}
";

/// Options of `kara ext new`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Folder to make; its last part is the name
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Options {
    /// Makes it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let shown = self.folder.display().to_string();
        let name = self.folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_name) {
            return Err(Failure::usage("a crate's name is small letters, digits, - and _").of_file(&shown));
        }
        if self.folder.exists() {
            return Err(Failure::usage("the folder is there already").of_file(&shown));
        }
        let program = format!("{}_program", name.replace('-', "_"));
        let write = |path: &str, text: String| {
            let path = self.folder.join(path);
            std::fs::write(&path, text).map_err(|e| Failure::file(&path.display().to_string(), "write", &e))
        };
        std::fs::create_dir_all(self.folder.join("src")).map_err(|e| Failure::file(&shown, "create", &e))?;
        write("Cargo.toml", MANIFEST.replace("NAME", &name))?;
        write("src/lib.rs", SOURCE.replace("PROGRAM", &program))?;
        write(".gitignore", "/target\n/.kara\n*.o\n".to_string())?;
        karakoram_installer::vendor::write(&self.folder.join(".kara")).map_err(super::failure)?;
        match common.json {
            true => output::print_json(&json!({
                "schema": "kara/ext-new/1", "ok": true, "exit_code": 0, "folder": shown, "program": program,
            })),
            false => output::print_text(&format!(
                "made {shown}\n  \
                 test it:   (cd {shown} && cargo test)\n  \
                 build it:  kara ext build {shown} -o {name}.o\n  \
                 load it:   kara ext load {name}.o --interface INTERFACE\n"
            )),
        }
        Ok(Answer::Yes)
    }
}
