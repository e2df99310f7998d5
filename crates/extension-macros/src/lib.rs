//! The attributes of extensions: one for each hook, such as `#[xdp]`, `#[derive(Plain)]`, `#[derive(Shared)]`.
//!
//! Without dependencies, so that an extension builds offline: what is generated is put together as text.

#![forbid(unsafe_code)]

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// Marks a function `fn(&mut Xdp) -> XdpVerdict` as an XDP program. `#[xdp(on_panic = drop)]` names the
/// verdict after a panic; without it packets pass.
#[proc_macro_attribute]
pub fn xdp(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let verdicts = [("aborted", 0), ("drop", 1), ("pass", 2)];
    program("xdp", "hook::run_xdp", &verdicts, 2, arguments, item)
}

/// Marks a function `fn(&mut Tc) -> TcVerdict` as a tc program. `#[tc(on_panic = drop)]` names the
/// verdict after a panic; without it packets pass.
#[proc_macro_attribute]
pub fn tc(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("tc", "hook::run_tc", &[("pass", 0), ("drop", 2)], 0, arguments, item)
}

/// Marks a function `fn(&mut Cgroup) -> CgroupVerdict` as a program of a control group. `#[cgroup(on_panic = drop)]`
/// names the verdict after a panic; without it packets pass.
#[proc_macro_attribute]
pub fn cgroup(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("cgroup", "hook::run_cgroup", &CGROUP_VERDICTS, 1, arguments, item)
}

/// What programs of control groups return.
const CGROUP_VERDICTS: [(&str, i32); 2] = [("drop", 0), ("pass", 1)];

/// Marks a function `fn(&mut Connect4) -> CgroupVerdict` as a program that processes of a control group pass when they
/// connect an IPv4 socket. `#[connect4(on_panic = drop)]` names the verdict after a panic; without it they may.
#[proc_macro_attribute]
pub fn connect4(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("connect4", "socket::run_connect4", &CGROUP_VERDICTS, 1, arguments, item)
}

/// The same for IPv6: `fn(&mut Connect6) -> CgroupVerdict`.
#[proc_macro_attribute]
pub fn connect6(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("connect6", "socket::run_connect6", &CGROUP_VERDICTS, 1, arguments, item)
}

/// Marks a function `fn(&mut SocketOption) -> CgroupVerdict` as a program that processes of a control group pass when
/// they ask for an option of a socket. `#[getsockopt(on_panic = drop)]` names the verdict after a panic.
#[proc_macro_attribute]
pub fn getsockopt(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("getsockopt", "socket::run_socket_option", &CGROUP_VERDICTS, 1, arguments, item)
}

/// The same for options that are set.
#[proc_macro_attribute]
pub fn setsockopt(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("setsockopt", "socket::run_socket_option", &CGROUP_VERDICTS, 1, arguments, item)
}

/// Marks a function `fn(&mut Connection)` as a program that sees what happens to the TCP connections of a control
/// group.
#[proc_macro_attribute]
pub fn sock_ops(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("sock_ops", "socket::run_connection", &[], 1, arguments, item)
}

/// Marks a function `fn(&mut Sample)` as a program that runs so and so often on each processor.
#[proc_macro_attribute]
pub fn perf_event(arguments: TokenStream, item: TokenStream) -> TokenStream {
    program("perf_event", "sample::run_perf_event", &[], 0, arguments, item)
}

/// Marks a function `fn(&mut Tracepoint, ...)` as a program at the tracepoint of that name:
/// `#[tracepoint("sched_process_exec")]`. Its other parameters are the first arguments of the tracepoint: numbers,
/// `bool` or `Address`.
#[proc_macro_attribute]
pub fn tracepoint(arguments: TokenStream, item: TokenStream) -> TokenStream {
    const MOST_ARGUMENTS: usize = 12;
    let target = arguments.to_string();
    let target = target.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or("");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if target.is_empty() || !target.chars().all(is_part) {
        return error("name the tracepoint: #[tracepoint(\"sched_process_exec\")]");
    }
    let Some(name) = word_after(&item, "fn") else { return error("this attribute is for functions") };
    if name == "tracepoint" {
        return error("a program cannot have the name of its hook");
    }
    let count = match parameters(&item) {
        Some(count @ 1..) if count <= MOST_ARGUMENTS + 1 => count - 1,
        Some(1..) => return error("a tracepoint has twelve arguments at most"),
        _ => return error("a program at a tracepoint takes a &mut Tracepoint, and behind it arguments"),
    };
    let passed: String = (0..count).map(|n| format!(", ::karakoram_extension::tracepoint::argument({n})")).collect();
    let entry = format!(
        "#[cfg(any(target_arch = \"wasm32\", target_os = \"none\"))] const _: () = {{
            #[unsafe(export_name = \"kara:tracepoint:0:{name}:{target}:{count}\")]
            extern \"C\" fn entry() -> i32 {{
                let () = ::karakoram_extension::tracepoint::run(|event| {name}(event{passed}));
                0
            }}
        }};"
    );
    let entry: TokenStream = entry.parse().expect("well-formed");
    item.into_iter().chain(entry).collect()
}

/// How many parameters a function has.
fn parameters(item: &TokenStream) -> Option<usize> {
    let group = item.clone().into_iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        _ => None,
    })?;
    Some(fields(group, Delimiter::Brace).len())
}

fn program(
    hook: &str,
    runner: &str,
    verdicts: &[(&str, i32)],
    default: i32,
    arguments: TokenStream,
    item: TokenStream,
) -> TokenStream {
    let verdict = match on_panic(arguments, verdicts, default) {
        Ok(verdict) => verdict,
        Err(why) => return error(&why),
    };
    let Some(name) = word_after(&item, "fn") else { return error("this attribute is for functions") };
    if name == hook {
        return error("a program cannot have the name of its hook");
    }
    let entry = format!(
        "#[cfg(any(target_arch = \"wasm32\", target_os = \"none\"))] const _: () = {{
            #[unsafe(export_name = \"kara:{hook}:{verdict}:{name}\")]
            extern \"C\" fn entry() -> i32 {{ ::karakoram_extension::{runner}({name}) }}
        }};"
    );
    let entry: TokenStream = entry.parse().expect("well-formed");
    item.into_iter().chain(entry).collect()
}

fn on_panic(arguments: TokenStream, verdicts: &[(&str, i32)], default: i32) -> Result<i32, String> {
    let text: Vec<String> = arguments.into_iter().map(|t| t.to_string()).collect();
    match text.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(default),
        ["on_panic", "=", wanted] => {
            if verdicts.is_empty() {
                return Err("there is nothing to decide after a panic at this hook".to_string());
            }
            let names: Vec<&str> = verdicts.iter().map(|(n, _)| *n).collect();
            let found = verdicts.iter().find(|(n, _)| *n == wanted);
            found.map(|(_, v)| *v).ok_or(format!("on_panic is one of {}", names.join(", ")))
        }
        _ => Err("expected nothing or on_panic = VERDICT".to_string()),
    }
}

/// The word that follows another one at the top level.
fn word_after(item: &TokenStream, before: &str) -> Option<String> {
    let mut tokens = item.clone().into_iter();
    tokens.find(|t| matches!(t, TokenTree::Ident(i) if i.to_string() == before))?;
    match tokens.next()? {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    }
}

fn error(why: &str) -> TokenStream {
    format!("::core::compile_error!({why:?});").parse().expect("well-formed")
}

/// Derives `Plain` for a `#[repr(C)]` structure whose fields are all plain and leave no gaps.
#[proc_macro_derive(Plain)]
pub fn plain(item: TokenStream) -> TokenStream {
    let (name, fields) = match structure(&item) {
        Ok(parts) => parts,
        Err(why) => return error(&why),
    };
    if !item.to_string().replace(' ', "").contains("repr(C") {
        return error("Plain is for structures with #[repr(C)]");
    }
    let sizes: String = fields.iter().map(|ty| format!("+ ::core::mem::size_of::<{ty}>()")).collect();
    let bounds: String = fields.iter().map(|ty| format!("is::<{ty}>();")).collect();
    format!(
        "const _: () = {{
            const fn is<T: ::karakoram_extension::Plain>() {{}}
            {bounds}
            assert!(::core::mem::size_of::<{name}>() == 0 {sizes}, \"a plain structure has no gaps\");
            unsafe impl ::karakoram_extension::Plain for {name} {{}}
        }};"
    )
    .parse()
    .expect("well-formed")
}

/// Derives `Shared` for a structure whose fields all are.
#[proc_macro_derive(Shared)]
pub fn shared(item: TokenStream) -> TokenStream {
    let (name, fields) = match structure(&item) {
        Ok(parts) => parts,
        Err(why) => return error(&why),
    };
    let bounds: String = fields.iter().map(|ty| format!("is::<{ty}>();")).collect();
    format!(
        "const _: () = {{
            const fn is<T: ::karakoram_extension::Shared>() {{}}
            {bounds}
            unsafe impl ::karakoram_extension::Shared for {name} {{}}
        }};"
    )
    .parse()
    .expect("well-formed")
}

/// Name and types of the fields of a structure without parameters.
fn structure(item: &TokenStream) -> Result<(String, Vec<String>), String> {
    let name = word_after(item, "struct").ok_or("this derive is for structures")?;
    let mut after = item.clone().into_iter().skip_while(|t| t.to_string() != name).skip(1);
    match after.next() {
        Some(TokenTree::Group(group)) => Ok((name, fields(group.stream(), group.delimiter()))),
        Some(TokenTree::Punct(p)) if p.as_char() == ';' => Ok((name, Vec::new())),
        _ => Err("this derive is for structures without type parameters".to_string()),
    }
}

fn fields(content: TokenStream, delimiter: Delimiter) -> Vec<String> {
    let mut fields = vec![Vec::new()];
    // A comma inside angle brackets belongs to a type.
    let mut depth = 0;
    for token in content {
        match &token {
            TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
            TokenTree::Punct(p) if p.as_char() == '>' => depth -= 1,
            TokenTree::Punct(p) if p.as_char() == ',' && depth == 0 => {
                fields.push(Vec::new());
                continue;
            }
            _ => {}
        }
        fields.last_mut().expect("never empty").push(token);
    }
    fields.retain(|f| !f.is_empty());
    fields.into_iter().map(|field| field_type(field, delimiter)).collect()
}

/// What comes after attributes, visibility and the name.
fn field_type(tokens: Vec<TokenTree>, delimiter: Delimiter) -> String {
    let colon = tokens.iter().position(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ':'));
    let start = match (delimiter, colon) {
        (Delimiter::Brace, Some(at)) => at + 1,
        _ => tuple_type_start(&tokens),
    };
    tokens[start..].iter().cloned().collect::<TokenStream>().to_string()
}

fn tuple_type_start(tokens: &[TokenTree]) -> usize {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            // An attribute is two tokens.
            TokenTree::Punct(p) if p.as_char() == '#' => at += 2,
            TokenTree::Ident(i) if i.to_string() == "pub" => {
                at += 1;
                if matches!(tokens.get(at), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis) {
                    at += 1;
                }
            }
            _ => break,
        }
    }
    at
}
