// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles and links `src/bpf/*.bpf.c` and `src/congestion/*.bpf.c` with clang and generates Rust types from the ABI header. libbpf's headers come from libbpf-sys.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libbpf_rs::Linker;

const HEADERS: &str = "include";
const ABI_HEADER: &str = "include/mpwatch_abi.h";
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
    generate_abi(&out.join("abi.rs"))
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

fn generate_abi(output: &Path) -> Result<()> {
    bindgen::Builder::default()
        .header(ABI_HEADER)
        .clang_args(["-include", "linux/types.h"])
        .clang_args(multiarch_arguments()?)
        .allowlist_item("mpw_.*|MPW_.*")
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_default(true)
        .generate_comments(true)
        .parse_callbacks(Box::new(PlainData))
        .generate()
        .context("reading the ABI header (is libclang installed? `./dev setup` installs it)")?
        .write_to_file(output)
        .context("writing the ABI types")
}

/// Records are plain data: any bytes of the right length are valid. bytemuck checks at compile time that no type has padding.
#[derive(Debug)]
struct PlainData;

impl bindgen::callbacks::ParseCallbacks for PlainData {
    fn add_derives(&self, info: &bindgen::callbacks::DeriveInfo<'_>) -> Vec<String> {
        match info.kind {
            bindgen::callbacks::TypeKind::Struct => vec!["bytemuck::Pod".into(), "bytemuck::Zeroable".into()],
            _ => Vec::new(),
        }
    }
}
