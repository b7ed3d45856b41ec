// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles and links `src/bpf/*.bpf.c` and `src/congestion/*.bpf.c` with clang and generates Rust types from the ABI headers. libbpf's headers come from libbpf-sys.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libbpf_rs::Linker;
use libbpf_rs::btf::types::{Array, Enum, Int, Struct};
use libbpf_rs::btf::{Btf, BtfType};

const HEADERS: &str = "include";
const ABI_HEADERS: [&str; 2] = ["include/mpwatch_settings.h", "include/mpwatch_abi.h"];
const PROGRAMS: &str = "src/bpf";
/// Compiled into an object of its own, because a kernel without struct_ops refuses the whole object.
const CONGESTION: &str = "src/congestion";

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed={HEADERS}");
    println!("cargo:rerun-if-changed={PROGRAMS}");
    println!("cargo:rerun-if-changed={CONGESTION}");
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo did not set OUT_DIR")?);
    link_programs(&compile_programs(PROGRAMS, &out)?, &out.join("mpwatch.bpf.o"))?;
    link_programs(&compile_programs(CONGESTION, &out)?, &out.join("congestion.bpf.o"))?;
    generate_abi(&out)
}

fn compile_programs(folder: &str, out: &Path) -> Result<Vec<PathBuf>> {
    let mut sources: Vec<PathBuf> =
        fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    sources.sort();
    let arguments = clang_arguments()?;
    sources.iter().map(|source| compile(source, out, &arguments)).collect()
}

fn compile(source: &Path, out: &Path, arguments: &[OsString]) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has no name")?;
    let object = out.join(name).with_extension("o");
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-g", "-O2", "-c"]).args(arguments).arg(source).arg("-o").arg(&object);
    let status = clang.status().context("starting clang (is it installed? `./dev setup` installs it)")?;
    ensure!(status.success(), "compiling {} failed, see above", source.display());
    Ok(object)
}

fn clang_arguments() -> Result<Vec<OsString>> {
    let headers = env::var_os("DEP_BPF_INCLUDE").context("libbpf-sys did not set DEP_BPF_INCLUDE")?;
    let flags = [
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Wno-sign-compare",
        "-Werror",
        "-mcpu=v3",
        "-fno-stack-protector",
        "-Iinclude",
    ];
    let others = multiarch_arguments()?.map(OsString::from).into_iter().chain(["-I".into(), headers]);
    Ok(flags.into_iter().map(OsString::from).chain(others).collect())
}

/// Arguments to find asm/types.h, because clang does not search Debian's multiarch directory for the target `bpf`. When cross-compiling, the
/// directory of the target may be missing; the directory of this machine has the same types.
fn multiarch_arguments() -> Result<[String; 4]> {
    let target = env::var("CARGO_CFG_TARGET_ARCH").context("cargo did not set CARGO_CFG_TARGET_ARCH")?;
    let host = env::var("HOST").context("cargo did not set HOST")?;
    let host = host.split('-').next().unwrap_or_default();
    let folder = |architecture: &str| format!("/usr/include/{architecture}-linux-gnu");
    Ok(["-idirafter".to_owned(), folder(&target), "-idirafter".to_owned(), folder(host)])
}

fn link_programs(objects: &[PathBuf], output: &Path) -> Result<()> {
    let mut linker = Linker::new(output).context("opening the linked object")?;
    for object in objects {
        linker.add_file(object).with_context(|| format!("linking {}", object.display()))?;
    }
    linker.link().context("linking the BPF objects")
}

/// Writes the constants and structs of the ABI headers in Rust, from the BTF that clang generates for them.
fn generate_abi(out: &Path) -> Result<()> {
    let headers = ABI_HEADERS.map(fs::read_to_string).into_iter().collect::<io::Result<String>>()?;
    let mut text = String::from("#include <linux/types.h>\n#include \"mpwatch_abi.h\"\n");
    // clang emits BTF only for types that a variable uses.
    for (number, name) in headers.lines().filter_map(|line| line.strip_suffix(" {")).enumerate() {
        writeln!(text, "{name} variable_{number};")?;
    }
    let source = out.join("abi.c");
    fs::write(&source, text)?;
    let btf = Btf::from_path(compile(&source, out, &clang_arguments()?)?)?;
    let mut text = String::new();
    for enumeration in btf.type_by_kind::<Enum<'_>>() {
        for constant in enumeration.iter() {
            writeln!(text, "pub const {}: u32 = {};", name_of(constant.name)?, constant.value)?;
        }
    }
    for structure in btf.type_by_kind::<Struct<'_>>() {
        let name = name_of(structure.name())?;
        writeln!(text, "#[repr(C)] #[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]")?;
        writeln!(text, "pub struct {name} {{")?;
        for member in structure.iter() {
            let field = btf.type_by_id(member.ty).context("a member has no type")?;
            writeln!(text, "    pub {}: {},", name_of(member.name)?, rust_type(field)?)?;
        }
        writeln!(
            text,
            "}}\nimpl Default for {name} {{ fn default() -> Self {{ bytemuck::Zeroable::zeroed() }} }}"
        )?;
    }
    fs::write(out.join("abi.rs"), text).context("writing the ABI types")
}

/// The Rust type of a member. All integers of the headers are unsigned, and bytemuck checks at compile time that no struct has padding.
fn rust_type(declared: BtfType<'_>) -> Result<String> {
    let resolved = declared.skip_mods_and_typedefs();
    if let Ok(integer) = Int::try_from(resolved) {
        Ok(format!("u{}", integer.bits))
    } else if let Ok(array) = Array::try_from(resolved) {
        Ok(format!("[{}; {}]", rust_type(array.contained_type())?, array.capacity()))
    } else {
        Ok(name_of(resolved.name())?.to_owned())
    }
}

fn name_of(name: Option<&OsStr>) -> Result<&str> {
    name.and_then(OsStr::to_str).context("a type, member or constant of the ABI has no name")
}
