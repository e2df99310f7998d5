//! Calls of host functions, and of the user's function by its program.

use crate::function::Emitter;
use crate::hook::Hook;
use crate::host::Host;
use crate::layout;
use crate::module::Ty;

/// Numbers of helpers.
mod helper {
    pub const KTIME_GET_NS: u32 = 5;
    pub const GET_PRANDOM_U32: u32 = 7;
    pub const GET_SMP_PROCESSOR_ID: u32 = 8;
    pub const GET_CURRENT_PID_TGID: u32 = 14;
    pub const REDIRECT: u32 = 23;
    pub const SKB_CHANGE_TAIL: u32 = 38;
    pub const XDP_ADJUST_HEAD: u32 = 44;
    pub const XDP_ADJUST_TAIL: u32 = 65;
}

/// How names of functions begin that copy so many bytes of the kernel's memory.
pub(super) const KERNEL_READ: &str = "kara_kernel_read_";

/// Offset of the interface in the context.
fn interface_offset(hook: Hook) -> u32 {
    match hook {
        Hook::Xdp => 12,
        _ => 40,
    }
}

impl Emitter<'_> {
    /// Starts with a stack pointer from elsewhere.
    pub(crate) fn start_at(&mut self, sp: &str) {
        let narrow = self.text.value(format!("trunc i64 {sp} to i32"));
        self.begin_without_function(&narrow);
    }

    pub(super) fn helper(&mut self, number: u32, arguments: &str) -> String {
        self.text.value(format!("call i64 inttoptr (i64 {number} to ptr)({arguments})"))
    }

    /// Whose packet it is. Only functions that need a context get here, and they have a hook.
    fn packet_hook(&self) -> Hook {
        self.hook.expect("a function that needs a context")
    }

    /// Writes the call of a host function.
    pub(crate) fn host_call(&mut self, host: Host) {
        let signature = host.signature();
        let mut arguments: Vec<String> = Vec::new();
        for ty in signature.params.iter().rev() {
            let value = if host.takes_places() { self.pop_place() } else { self.pop() };
            // Lengths that are known are written out, and so are addresses on the function's own stack.
            arguments.push(if value.starts_with('%') { self.widen(*ty, &value) } else { value });
        }
        arguments.reverse();
        let value = self.host_value(host, &arguments);
        if let Some(ty) = signature.result {
            let value = self.narrow(ty, &value);
            self.push(ty, value);
        }
    }

    /// The result in 64 bits.
    fn host_value(&mut self, host: Host, arguments: &[String]) -> String {
        let place = self.place;
        match host {
            Host::Panic => {
                let [file, length, line] = arguments else { unreachable!("checked against its signature") };
                let verdict = self.text.value(format!(
                    "call i64 @kara_panic(i64 %sp, i64 {file}, i64 {length}, i64 {line}), !dbg !{place}"
                ));
                self.end_run(&verdict);
                String::new()
            }
            Host::Now => self.helper(helper::KTIME_GET_NS, ""),
            Host::Random => self.helper(helper::GET_PRANDOM_U32, ""),
            Host::Cpu => self.helper(helper::GET_SMP_PROCESSOR_ID, ""),
            Host::Control | Host::Heap => self.text.value(format!("and i64 %sp, {}", -(layout::REGION_BYTES as i64))),
            Host::PacketLength => self.packet_length(),
            Host::PacketLoad(bytes) => self.packet_load(bytes, &arguments[0]),
            Host::PacketStore(bytes) => self.packet_store(bytes, &arguments[0], &arguments[1]),
            Host::PacketRead => self.packet_copy(true, &arguments[0], &arguments[1], &arguments[2]),
            Host::PacketWrite => self.packet_copy(false, &arguments[0], &arguments[1], &arguments[2]),
            Host::AdjustHead => match self.packet_hook() {
                Hook::Xdp => {
                    let delta = self.signed(&arguments[0]);
                    self.helper(helper::XDP_ADJUST_HEAD, &format!("ptr %ctx, i64 {delta}"))
                }
                // There is none; an error, as when there is no room.
                _ => "-1".to_string(),
            },
            Host::AdjustTail => {
                let delta = self.signed(&arguments[0]);
                match self.packet_hook() {
                    Hook::Xdp => self.helper(helper::XDP_ADJUST_TAIL, &format!("ptr %ctx, i64 {delta}")),
                    Hook::Tc => {
                        let length = self.text.value("load i32, ptr %ctx, align 4");
                        let length = self.widen(Ty::I32, &length);
                        let length = self.text.value(format!("add i64 {length}, {delta}"));
                        self.helper(helper::SKB_CHANGE_TAIL, &format!("ptr %ctx, i64 {length}, i64 0"))
                    }
                    _ => "-1".to_string(),
                }
            }
            Host::Interface => {
                let offset = interface_offset(self.packet_hook());
                let at = self.text.value(format!("getelementptr i8, ptr %ctx, i64 {offset}"));
                let value = self.text.value(format!("load i32, ptr {at}, align 4"));
                self.widen(Ty::I32, &value)
            }
            Host::Map(operation) => self.map_call(operation, arguments),
            Host::Process => self.helper(helper::GET_CURRENT_PID_TGID, ""),
            Host::KernelRead => {
                let [from, to, length] = arguments else { unreachable!("checked against its signature") };
                let call = format!("call i64 @{KERNEL_READ}{length}(i64 {from}, i64 {to}), !dbg !{place}");
                self.text.value(call)
            }
            Host::Redirect => self.helper(helper::REDIRECT, &format!("i64 {}, i64 {}", arguments[0], arguments[1])),
        }
    }

    /// A number of 32 bits with its sign in 64.
    fn signed(&mut self, wide: &str) -> String {
        let narrow = self.text.value(format!("trunc i64 {wide} to i32"));
        self.text.value(format!("sext i32 {narrow} to i64"))
    }
}
