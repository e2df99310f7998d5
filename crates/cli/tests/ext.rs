//! From nothing to an extension that counts the packets of an interface: what a new user does.

use std::path::Path;
use std::process::{Command, Output};

/// In a network namespace of its own, with a pair of interfaces between which packets go.
const ATTACHED: &str = r#"
set -e
export KARA_RUN="$PWD/run"
ip link add v0 type veth peer name v1
ip addr add 10.1.1.1/24 dev v0
ip link set v0 up
ip link set v1 up
"$KARA" ext load hello.o --interface v1 --background --json | grep -q '"load_ms":[^n]*[0-9]'
ip neigh add 10.1.1.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent
for i in 1 2 3; do echo packet > /dev/udp/10.1.1.2/9; done
sleep 0.5
"$KARA" ext status hello
"$KARA" ext logs hello
"$KARA" ext unload hello
test -z "$("$KARA" ext status)"
"#;

fn kara(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kara"));
    command.args(arguments).current_dir(folder).output().expect("kara")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn from_nothing_to_an_attached_extension() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ext");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("folder");
    let made = kara(&folder, &["ext", "new", "hello"]);
    assert!(made.status.success(), "{}", said(&made));
    with_a_map(&folder.join("hello/src/lib.rs"));
    let built = kara(&folder, &["ext", "build", "hello", "-o", "hello.o"]);
    if built.status.code() == Some(3) {
        eprintln!("SKIPPED: {}", said(&built));
        return;
    }
    assert!(built.status.success(), "{}", said(&built));
    let checked = kara(&folder, &["ext", "check", "hello.o"]);
    if checked.status.code() == Some(3) {
        eprintln!("SKIPPED: {}", said(&checked));
        return;
    }
    assert!(said(&checked).contains("hello_program (xdp): accepted"), "{}", said(&checked));
    let attached = Command::new("unshare")
        .args(["-n", "bash", "-c", ATTACHED])
        .env("KARA", env!("CARGO_BIN_EXE_kara"))
        .current_dir(&folder)
        .output()
        .expect("unshare");
    let text = said(&attached);
    assert!(attached.status.success(), "{text}");
    assert!(text.contains("hello: hello_program on v1, 0 panics\n"), "{text}");
    for said in ["hello has not panicked so far", "hello is detached from v1"] {
        assert!(text.contains(said), "{said}\n{text}");
    }
    let ipv4 = text.lines().find_map(|l| l.trim().strip_prefix("IPV4 ")?.parse::<u64>().ok());
    assert!(ipv4.is_some_and(|n| n >= 3), "{text}");
    assert!(text.contains("\n  SEEN (hash of 16)\n    0800 = 01\n"), "{text}");
}

/// Has the program keep which kinds of packets it has seen.
fn with_a_map(source: &Path) {
    let text = std::fs::read_to_string(source).expect("source");
    let text = text.replace(
        "counter!(static OTHER);",
        "counter!(static OTHER);\nkernel_map!(static SEEN: Hash<[u8; 2], u8>, 16);",
    );
    let text = text.replace("XdpVerdict, counter, xdp}", "XdpVerdict, counter, kernel_map, xdp}");
    let text =
        text.replace("0x0800 => IPV4.add(1),", "0x0800 => { IPV4.add(1); SEEN.insert(&header.kind.0, &1).unwrap() }");
    std::fs::write(source, text).expect("source");
}

#[test]
fn unsafe_code_does_not_compile() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ext-unsafe");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("folder");
    assert!(kara(&folder, &["ext", "new", "bad"]).status.success());
    let source = folder.join("bad/src/lib.rs");
    let text = std::fs::read_to_string(&source).expect("source");
    let text = text.replace("    XdpVerdict::Pass", "    unsafe { core::hint::unreachable_unchecked() }");
    std::fs::write(&source, format!("#![allow(unsafe_code)]\n{text}")).expect("source");
    let built = kara(&folder, &["ext", "build", "bad", "-o", "bad.o"]);
    if built.status.code() == Some(3) {
        eprintln!("SKIPPED: {}", said(&built));
        return;
    }
    assert_eq!(built.status.code(), Some(2), "{}", said(&built));
    assert!(said(&built).contains("unsafe"), "{}", said(&built));
}
