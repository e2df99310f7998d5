//! Runs the tests in `tests/interpreter/*.txt`: what is there before, code, what is there after.
//! `tests/interpreter/README.md` says how to write one.

use karakoram_bpf::insn::{FuncId, Reg};
use karakoram_bpf::interpreter::{Input, Interpreter, Options, Step};
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;
use std::fmt::Write as _;
use std::path::Path;

#[derive(Default)]
struct Test {
    name: String,
    line: usize,
    pre: Vec<String>,
    code: Vec<String>,
    post: Vec<String>,
}

#[test]
fn text_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interpreter");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder is there").flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "txt"));
    files.sort();
    let (mut count, mut failures) = (0, String::new());
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a readable file");
        for test in split(&source) {
            count += 1;
            if let Err(why) = run(&test) {
                let file = file.file_name().unwrap_or_default().to_string_lossy();
                let _ = writeln!(failures, "{file}:{}: {}: {why}", test.line, test.name);
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(count > 200, "only {count} tests were found");
}

fn split(source: &str) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    let mut section = "";
    for (n, line) in source.lines().enumerate() {
        let text = line.trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        if text.is_empty() || text.starts_with(';') {
            continue;
        }
        if word == "test" {
            tests.push(Test { name: rest.to_string(), line: n + 1, ..Test::default() });
            section = "";
            continue;
        }
        let indented = line.starts_with(' ');
        let content = match word {
            "pre" | "code" | "post" if !indented => {
                section = ["pre", "code", "post"].into_iter().find(|s| *s == word).unwrap_or("");
                rest
            }
            _ => text,
        };
        let Some(test) = tests.last_mut() else { continue };
        let lines = match section {
            "pre" => &mut test.pre,
            "code" => &mut test.code,
            _ => &mut test.post,
        };
        if section == "pre" || section == "post" {
            // Events and faults have commas of their own.
            let parts: Vec<&str> = match content.split_once(' ') {
                Some(("event" | "fault", _)) => vec![content],
                _ => content.split(',').collect(),
            };
            lines.extend(parts.into_iter().map(|c| c.trim().to_string()).filter(|c| !c.is_empty()));
        } else if !content.is_empty() {
            lines.push(content.to_string());
        }
    }
    tests
}

fn number(text: &str) -> Result<u64, String> {
    let (minus, digits) = text.strip_prefix('-').map_or((false, text), |d| (true, d));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16),
        None => digits.parse(),
    };
    let value = value.map_err(|_| format!("{text:?} is no number"))?;
    Ok(if minus { value.wrapping_neg() } else { value })
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for word in text.split_whitespace() {
        // `00*14` is fourteen zero bytes.
        let (word, times) = word.split_once('*').map_or((word, "1"), |w| w);
        let byte = u8::from_str_radix(word, 16).map_err(|_| format!("{word:?} is no byte"))?;
        let times: usize = times.parse().map_err(|_| format!("{times:?} is no count"))?;
        all.resize(all.len() + times, byte);
    }
    Ok(all)
}

fn register(name: &str) -> Option<Reg> {
    Reg::new(name.strip_prefix('r')?.parse().ok()?)
}

/// The code, after instructions that give registers their values.
fn program(test: &Test) -> Result<Program, String> {
    let directives = test.code.iter().take_while(|l| l.starts_with('.')).count();
    let mut source: Vec<String> = test.code[..directives].to_vec();
    if !source.iter().any(|l| l.starts_with(".hook") || l.starts_with(".func")) {
        let memory = test.pre.iter().find_map(|p| p.strip_prefix("memory =")).unwrap_or("");
        source.push(format!(".hook buffer={}", bytes(memory)?.len()));
    }
    for line in &test.pre {
        if let Some((name, value)) = line.split_once('=')
            && register(name.trim()).is_some()
        {
            source.push(format!("{} = {:#x} ll", name.trim(), number(value.trim())?));
        }
    }
    source.extend_from_slice(&test.code[directives..]);
    if !matches!(test.code.last().map(String::as_str), Some("exit")) {
        source.push("exit".into());
    }
    asm::parse(&source.join("\n")).map_err(|e| e.to_string())
}

/// `NAME[KEY] VALUE`
fn map_line(line: &str) -> Result<(&str, Vec<u8>, &str), String> {
    let (name, rest) = line.split_once('[').ok_or("a map line is: map NAME[KEY] = VALUE")?;
    let (key, rest) = rest.split_once(']').ok_or("a map line is: map NAME[KEY] = VALUE")?;
    Ok((name, bytes(key)?, rest.trim()))
}

fn run(test: &Test) -> Result<(), String> {
    let program = program(test)?;
    let mut options = Options::default();
    let mut input = Input::default();
    let mut settings = Vec::new();
    for line in &test.pre {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let value = rest.strip_prefix('=').map_or(rest, str::trim);
        match word {
            "memory" | "context" => input.context = bytes(value)?,
            "packet" => input.packet = bytes(value)?,
            "metadata" => input.metadata = bytes(value)?,
            "poison" => options.poison = Some(number(value)?),
            "instructions" => options.limits.instructions = number(value)?,
            "cpus" => options.cpus = number(value)? as u32,
            "model-unknown-calls" => options.model_unknown_calls = true,
            "kernel-loads" => options.kernel_loads = true,
            "map" | "cpu" | "clock" => settings.push((word, value)),
            _ if register(word).is_some() => {}
            _ => return Err(format!("unknown line before the code: {line}")),
        }
    }
    let mut interpreter = Interpreter::new(&program, options);
    for (word, value) in settings {
        let state = &mut interpreter.state;
        match word {
            "cpu" => state.cpu = number(value)? as u32,
            "clock" => state.clock_ns = number(value)?,
            _ => {
                let (name, key, value) = map_line(value)?;
                let value = bytes(value.strip_prefix('=').ok_or("a map line is: map NAME[KEY] = VALUE")?)?;
                let map = state.map_mut(name).ok_or("there is no such map")?;
                map.set(&key, &value).map_err(|e| format!("map {name}: {e}"))?;
            }
        }
    }
    let mut last = [0; Reg::COUNT];
    let mut observer = |step: &Step| {
        last = *step.registers;
        true
    };
    let outcome = match interpreter.run_observed(FuncId(0), input, &mut observer) {
        Ok(outcome) => outcome,
        Err(fault) => {
            return match test.post.as_slice() {
                [post] if post.strip_prefix("fault ").is_some_and(|f| fault.to_string().contains(f)) => Ok(()),
                _ => Err(format!("fault: {fault}")),
            };
        }
    };
    let mut events = outcome.events.iter().map(ToString::to_string);
    for line in &test.post {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let value = rest.strip_prefix('=').map_or(rest, str::trim);
        let found = match word {
            "memory" | "context" => outcome.context == bytes(value)?,
            "packet" => outcome.packet == bytes(value)?,
            "metadata" => outcome.metadata == bytes(value)?,
            "event" => {
                let event = events.next().unwrap_or_default();
                if event != value {
                    return Err(format!("expected event {value}, found {event}"));
                }
                true
            }
            "map" => {
                let (name, key, value) = map_line(value)?;
                let map = interpreter.state.map(name).ok_or("there is no such map")?;
                let expected = match value.strip_prefix('=') {
                    Some(value) => Some(bytes(value)?),
                    None => None,
                };
                let found = map.get(&key);
                if found != expected {
                    return Err(format!("expected {line}, found {found:02x?}"));
                }
                true
            }
            "r0" if outcome.value != number(value)? => {
                return Err(format!("expected {line}, found r0 = {:#x}", outcome.value));
            }
            name => {
                let register = register(name).ok_or(format!("unknown line after the code: {line}"))?;
                let found = if register == Reg::R0 { outcome.value } else { last[register.index()] };
                if found != number(value)? {
                    return Err(format!("expected {line}, found {name} = {found:#x}"));
                }
                true
            }
        };
        if !found {
            return Err(format!(
                "expected {line}, found {}",
                if word == "packet" { format!("{:02x?}", outcome.packet) } else { format!("{:02x?}", outcome.context) }
            ));
        }
    }
    match events.next() {
        Some(event) => Err(format!("an event that was not expected: {event}")),
        None if test.post.is_empty() => Err("nothing is expected after the code".into()),
        None => Ok(()),
    }
}
