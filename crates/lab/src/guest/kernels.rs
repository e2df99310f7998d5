//! Kernels for guests, out of Debian's packages. apt works on a configuration of its own, in the
//! cache: the system's lists, sources and packages are neither used nor changed.

use crate::error::LabError;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR: &str = "http://deb.debian.org";
/// Where kernels come from: the newest of the stable release, and newer ones.
const SUITES: [(&str, &str); 3] =
    [("debian", "bookworm"), ("debian-security", "bookworm-security"), ("debian", "bookworm-backports")];

/// A kernel for a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The image that boots.
    pub image: PathBuf,
    /// What it was configured with.
    pub configuration: PathBuf,
    /// Folder of the modules that were asked for, `NAME.ko` each.
    pub modules: PathBuf,
}

impl Kernel {
    /// Where a module is.
    pub fn module(&self, name: &str) -> PathBuf {
        self.modules.join(format!("{name}.ko"))
    }
}

/// The kernels in a cache folder.
pub struct Kernels {
    pub(super) folder: PathBuf,
}

/// Where kernels are kept unless someone says otherwise.
pub fn default_cache() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    cache.or_else(home).map(|cache| cache.join("karakoram"))
}

impl Kernels {
    /// Those in that folder, which is made when it is needed.
    pub fn new(folder: impl Into<PathBuf>) -> Kernels {
        Kernels { folder: folder.into() }
    }

    /// The newest kernel of a version such as `6.12` with some of its modules, fetched when it is not here
    /// yet.
    pub fn get(&self, version: &str, modules: &[String]) -> Result<Kernel, LabError> {
        if !is_version(version) {
            return Err(LabError::Request(format!("{version} is no kernel version such as 6.12")));
        }
        let folder = self.folder.join(format!("linux-{version}"));
        let [image, configuration, at] = ["vmlinuz", "config", "modules"].map(|name| folder.join(name));
        let kernel = Kernel { image, configuration, modules: at };
        if folder.is_dir() && modules.iter().all(|name| kernel.module(name).is_file()) {
            return Ok(kernel);
        }
        self.fetch(version, modules, &folder)?;
        Ok(kernel)
    }

    /// Fetches the newest kernel of a version into its folder, in place of what is there.
    pub(super) fn fetch(&self, version: &str, modules: &[String], folder: &Path) -> Result<(), LabError> {
        std::fs::create_dir_all(&self.folder).map_err(|e| LabError::file("make", &self.folder, &e))?;
        let work = tempfile::Builder::new()
            .prefix(".fetch-")
            .tempdir_in(&self.folder)
            .map_err(|e| LabError::file("make a folder in", &self.folder, &e))?;
        let package = Apt::new(work.path())?.download(version)?;
        let fresh = work.path().join("kernel");
        let place = fresh.join("modules");
        std::fs::create_dir_all(&place).map_err(|e| LabError::file("make", &place, &e))?;
        extract(&package, &fresh, modules)?;
        // Modules fit one build of a kernel only, so what is there already goes as a whole.
        let _ = std::fs::rename(folder, work.path().join("before"));
        // Another process may have been faster.
        match std::fs::rename(&fresh, folder) {
            Err(e) if !folder.is_dir() => Err(LabError::file("write", folder, &e)),
            _ => Ok(()),
        }
    }
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() >= 2 && parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// Takes the image, the configuration and some modules out of a package.
fn extract(package: &Path, to: &Path, modules: &[String]) -> Result<(), LabError> {
    let broken = |e: &dyn std::fmt::Display| {
        LabError::Machine(format!("there is no such kernel in {}: {e}", package.display()), "try again".into())
    };
    let mut unpacked = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| LabError::tool("dpkg-deb", &e))?;
    let stream = unpacked.stdout.take().ok_or_else(|| broken(&"no output"))?;
    let mut wanted: Vec<String> = modules.iter().map(|name| format!("modules/{name}.ko")).collect();
    wanted.extend(["vmlinuz", "config"].map(String::from));
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(|e| broken(&e))? {
        let mut entry = entry.map_err(|e| broken(&e))?;
        let path = entry.path().map_err(|e| broken(&e))?.into_owned();
        let Some(place) = wanted.iter().position(|name| is_it(&path, name)) else { continue };
        let is_packed = path.extension().is_some_and(|e| e == "xz");
        let target = to.join(wanted.remove(place));
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|e| broken(&e))?;
        let bytes = if is_packed { unpack_xz(&bytes)? } else { bytes };
        std::fs::write(&target, bytes).map_err(|e| LabError::file("write", &target, &e))?;
        if wanted.is_empty() {
            break;
        }
    }
    // It may still be writing; nobody reads that any more.
    let _ = unpacked.kill();
    let _ = unpacked.wait();
    if wanted.is_empty() { Ok(()) } else { Err(broken(&format!("{} is missing", wanted.join(", ")))) }
}

fn unpack_xz(bytes: &[u8]) -> Result<Vec<u8>, LabError> {
    let failed = |e: std::io::Error| LabError::tool("xz", &e);
    let mut xz = Command::new("xz").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let input = xz.stdin.take();
    std::thread::scope(|scope| {
        // It may write before it has read everything.
        scope.spawn(move || input.map(|mut input| input.write_all(bytes)));
        xz.wait_with_output()
    })
    .map(|output| output.stdout)
    .map_err(failed)
}

/// Whether a path of the package is that of `vmlinuz`, `config` or `modules/NAME.ko`.
fn is_it(path: &Path, wanted: &str) -> bool {
    let Some(module) = wanted.strip_prefix("modules/") else { return is_in_boot(path, wanted) };
    let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    file.strip_suffix(".xz").unwrap_or(file) == module
}

/// Whether a path is that of `boot/NAME-RELEASE`.
fn is_in_boot(path: &Path, name: &str) -> bool {
    let path = path.strip_prefix(".").unwrap_or(path);
    let file = path.strip_prefix("boot").ok().and_then(|p| p.to_str());
    file.is_some_and(|f| f.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))
}

/// apt with a configuration in a folder of its own.
pub(super) struct Apt {
    folder: PathBuf,
}

impl Apt {
    pub(super) fn new(folder: &Path) -> Result<Apt, LabError> {
        if !Path::new(KEYS).is_file() {
            return Err(LabError::Machine(
                format!("{KEYS} is missing: packages could not be checked"),
                "install it: apt-get install debian-archive-keyring".into(),
            ));
        }
        let apt = Apt { folder: folder.to_path_buf() };
        for name in ["lists/partial", "archives/partial", "none"] {
            let path = folder.join(name);
            std::fs::create_dir_all(&path).map_err(|e| LabError::file("make", &path, &e))?;
        }
        apt.write("sources.list", &sources())?;
        apt.write("apt.conf", &configuration(folder))?;
        apt.call("apt-get", &["-qq", "update"])?;
        Ok(apt)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), LabError> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).map_err(|e| LabError::file("write", &path, &e))
    }

    fn call(&self, tool: &str, arguments: &[&str]) -> Result<String, LabError> {
        let output = Command::new(tool)
            .args(arguments)
            .current_dir(&self.folder)
            .env("APT_CONFIG", self.folder.join("apt.conf"))
            .output()
            .map_err(|e| LabError::tool(tool, &e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
        Err(LabError::Machine(
            format!("{tool} {} failed: {why}", arguments.join(" ")),
            format!("is {MIRROR} reachable?"),
        ))
    }

    /// Fetches the package with the newest kernel of that version.
    fn download(&self, version: &str) -> Result<PathBuf, LabError> {
        let known = self.call("apt-cache", &["show", "linux-image-amd64"])?;
        let package = newest(&known, version).ok_or_else(|| {
            LabError::Request(format!("Debian has no kernel {version}; it has {}", versions(&known).join(", ")))
        })?;
        self.download_package(&package)
    }

    /// The packages that a package depends on; None when there is no such package.
    pub(super) fn dependencies(&self, package: &str) -> Option<Vec<String>> {
        let known = self.call("apt-cache", &["show", package]).ok()?;
        let list = known.lines().find_map(|l| l.strip_prefix("Depends: "))?;
        Some(list.split(", ").filter_map(|one| Some(one.split(' ').next()?.to_string())).collect())
    }

    /// Fetches a package by name.
    pub(super) fn download_package(&self, package: &str) -> Result<PathBuf, LabError> {
        self.call("apt-get", &["-qq", "download", package])?;
        let files = std::fs::read_dir(&self.folder).map_err(|e| LabError::file("read", &self.folder, &e))?;
        let mut files = files.filter_map(|f| Some(f.ok()?.path()));
        files
            .find(|f| is_package(f, package))
            .ok_or_else(|| LabError::Machine(format!("apt fetched no file for {package}"), "try again".into()))
    }
}

/// Whether a path is that of `PACKAGE_VERSION_ARCHITECTURE.deb`.
fn is_package(path: &Path, package: &str) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    name.ends_with(".deb") && name.split('_').next() == Some(package)
}

fn sources() -> String {
    let line =
        |(part, suite): &(&str, &str)| format!("deb [arch=amd64 signed-by={KEYS}] {MIRROR}/{part} {suite} main\n");
    SUITES.iter().map(line).collect()
}

fn configuration(folder: &Path) -> String {
    let path = folder.display();
    format!(
        "Dir::Etc::SourceList \"{path}/sources.list\";\nDir::Etc::SourceParts \"{path}/none\";\n\
         Dir::Etc::PreferencesParts \"{path}/none\";\nDir::State::Lists \"{path}/lists\";\n\
         Dir::Cache::Archives \"{path}/archives\";\nDir::Cache::PkgCache \"\";\nDir::Cache::SrcPkgCache \"\";\n\
         Acquire::Languages \"none\";\nAcquire::Check-Valid-Until \"false\";\nAPT::Sandbox::User \"\";\n"
    )
}

/// `Version` and the package that it depends on, of each stanza of `apt-cache show linux-image-amd64`.
fn stanzas(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n\n").filter_map(|stanza| {
        let field = |name: &str| stanza.lines().find_map(|l| l.strip_prefix(name));
        let package = field("Depends: ")?.split([' ', ',']).next()?;
        Some((field("Version: ")?, package))
    })
}

/// The package of the newest kernel of a version.
fn newest(text: &str, version: &str) -> Option<String> {
    let of_version = |v: &str| v == version || v.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-']));
    let number = |v: &str| v.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0)).collect::<Vec<u64>>();
    stanzas(text).filter(|(v, _)| of_version(v)).max_by_key(|(v, _)| number(v)).map(|(_, package)| package.to_string())
}

fn versions(text: &str) -> Vec<String> {
    let mut versions: Vec<String> =
        stanzas(text).map(|(v, _)| v.split('.').take(2).collect::<Vec<_>>().join(".")).collect();
    versions.sort();
    versions.dedup();
    versions
}

/// Where a program is, on the search path.
pub(super) fn find_tool(name: &str) -> Result<PathBuf, LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.is_file());
    found.ok_or_else(|| LabError::tool(name, &std::io::Error::from(std::io::ErrorKind::NotFound)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOW: &str = "Package: linux-image-amd64\nVersion: 6.12.95-1~bpo12+1\nDepends: linux-image-6.12.95+deb12-amd64 (= 1)\n\n\
        Package: linux-image-amd64\nVersion: 6.1.176-1\nDepends: linux-image-6.1.0-50-amd64 (= 6.1.176-1)\n\n\
        Package: linux-image-amd64\nVersion: 6.1.92-2\nDepends: linux-image-6.1.0-22-amd64 (= 6.1.92-2)\n";

    #[test]
    fn the_newest_of_a_version() {
        assert_eq!(newest(SHOW, "6.1").as_deref(), Some("linux-image-6.1.0-50-amd64"));
        assert_eq!(newest(SHOW, "6.12").as_deref(), Some("linux-image-6.12.95+deb12-amd64"));
        assert_eq!(newest(SHOW, "6.5"), None);
        assert_eq!(versions(SHOW), ["6.1", "6.12"]);
    }

    #[test]
    fn files_of_a_package() {
        let module = Path::new("./usr/lib/modules/6.12/kernel/net/ipv4/tcp_dctcp.ko.xz");
        assert!(is_it(module, "modules/tcp_dctcp.ko") && !is_it(module, "modules/dctcp.ko"));
        assert!(is_it(Path::new("lib/modules/6.1/kernel/drivers/net/tun.ko"), "modules/tun.ko"));
        assert!(is_it(Path::new("./boot/vmlinuz-6.12"), "vmlinuz") && !is_it(module, "vmlinuz"));
    }

    #[test]
    fn versions_are_numbers() {
        assert!(is_version("6.1") && is_version("6.12.3"));
        assert!(!is_version("6") && !is_version("../6.1") && !is_version("6."));
    }
}
