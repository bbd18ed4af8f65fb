//! What an ELF file tells: where its probed functions are, its build id, what it needs to be loaded.

use std::collections::HashMap;
use std::fs::File;
use std::sync::LazyLock;

use ingero_format::catalog::FUNCTIONS;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{Object, ReadCache, ReadRef};
use object::{Endianness, SectionIndex};

use crate::processor::Processor;

/// Larger tables are not read: no CUDA program has them, a hostile file may.
const TABLE_BYTES: u64 = 512 << 20;

/// A probed function in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Place of its first instruction in the file.
    pub file_offset: u64,
    /// Its number in [`FUNCTIONS`].
    pub function: usize,
    /// Where a probe costs least: see [`Processor::cheapest`].
    pub attach_offset: u64,
}

/// What matters of one ELF file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// The probed functions in it, one per address, by place.
    pub points: Vec<Point>,
    /// Build id, in hexadecimal; empty when it has none.
    pub build_id: String,
    /// Names of the libraries that it is linked with.
    pub needed: Vec<Vec<u8>>,
    /// Where to look for them before the environment, unexpanded.
    pub rpath: Vec<Vec<u8>>,
    /// Where to look for them after the environment, unexpanded.
    pub runpath: Vec<Vec<u8>>,
}

/// Numbers of the functions by name.
static NUMBERS: LazyLock<HashMap<&'static [u8], usize>> = LazyLock::new(|| {
    let numbered = FUNCTIONS.iter().enumerate();
    numbered.map(|(i, f)| (f.symbol.as_bytes(), i)).collect()
});

impl Elf {
    /// Reads an ELF file of this machine's kind by `pread`, so that a file that shrinks meanwhile is an error and
    /// not a signal.
    ///
    /// `None`: no such file, or damaged.
    #[must_use]
    pub fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        Self::parse(&cache)
    }

    /// The build id alone, in hexadecimal: little is read for it.
    #[must_use]
    pub fn read_build_id(file: &File) -> Option<String> {
        let cache = ReadCache::new(file);
        let parsed = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        parsed.build_id().ok().flatten().map(hex)
    }

    /// Parses an ELF file in any store.
    pub fn parse<'d, R: ReadRef<'d>>(data: R) -> Option<Self> {
        let file = ElfFile64::<Endianness, R>::parse(data).ok()?;
        let endian = file.endian();
        if file.elf_header().e_machine(endian).0 != Processor::OWN.elf_machine() {
            return None;
        }
        let build_id = file.build_id().ok().flatten().map(hex).unwrap_or_default();
        let mut parsed = Self { build_id, ..Self::default() };
        parsed.points = points(&file, endian, data);
        parsed.read_dynamic(&file, endian, data);
        Some(parsed)
    }

    fn read_dynamic<'d, R: ReadRef<'d>>(&mut self, file: &ElfFile64<'d, Endianness, R>, endian: Endianness, data: R) {
        let sections = file.elf_section_table();
        let Ok(Some((entries, link))) = sections.dynamic(endian, data) else {
            return;
        };
        let Some(strings) = table(file, endian, data, link) else {
            return;
        };
        use object::read::elf::Dyn;
        for entry in entries {
            let value = || {
                let offset = usize::try_from(entry.d_val(endian)).ok()?;
                string_at(strings, offset).map(<[u8]>::to_vec)
            };
            let dirs = || {
                let text = value().unwrap_or_default();
                let dirs = text.split(|&b| b == b':').filter(|d| !d.is_empty());
                dirs.map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            match entry.d_tag(endian) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => self.needed.extend(value()),
                elf::DT_RPATH => self.rpath.extend(dirs()),
                elf::DT_RUNPATH => self.runpath.extend(dirs()),
                _ => {}
            }
        }
    }
}

/// Looks through both symbol tables: `.dynsym` alone lacks what a program was linked with statically, and a
/// stripped library lacks `.symtab`.
fn points<'d, R: ReadRef<'d>>(file: &ElfFile64<'d, Endianness, R>, endian: Endianness, data: R) -> Vec<Point> {
    // Several names may stand at one place: the first of the function table wins, whatever order they come in.
    let mut by_place: HashMap<u64, usize> = HashMap::new();
    for section in file.elf_section_table().iter() {
        let kind = section.sh_type(endian);
        if kind != elf::SHT_SYMTAB && kind != elf::SHT_DYNSYM || section.sh_size(endian) > TABLE_BYTES {
            continue;
        }
        let link = SectionIndex(usize::try_from(section.sh_link(endian)).unwrap_or(0));
        let Some(strings) = table(file, endian, data, link) else {
            continue;
        };
        let symbols = section.data_as_array::<elf::Sym64<Endianness>, R>(endian, data);
        for symbol in symbols.unwrap_or_default() {
            let offset = usize::try_from(symbol.st_name(endian)).unwrap_or(usize::MAX);
            if strings.get(offset..).is_none_or(|s| !matches!(s, [b'c', b'u', ..] | [b'n', b'c' | b'v', ..])) {
                continue;
            }
            // Imported functions have no place here; in old executables they have the address of a stub.
            if symbol.st_shndx(endian) == elf::SHN_UNDEF || symbol.st_type() != elf::STT_FUNC {
                continue;
            }
            let number = string_at(strings, offset).and_then(|name| NUMBERS.get(name));
            let place = file_offset(file, endian, symbol.st_value(endian));
            if let (Some(&number), Some(place)) = (number, place) {
                let first = by_place.entry(place).or_insert(number);
                *first = number.min(*first);
            }
        }
    }
    let mut points: Vec<Point> = by_place
        .into_iter()
        .map(|(file_offset, function)| {
            let head = data.read_bytes_at(file_offset, Processor::HEAD_BYTES).unwrap_or_default();
            Point { file_offset, function, attach_offset: file_offset + Processor::OWN.cheapest(head) }
        })
        .collect();
    points.sort_unstable();
    points
}

/// The bytes of a string section.
fn table<'d, R: ReadRef<'d>>(
    file: &ElfFile64<'d, Endianness, R>,
    endian: Endianness,
    data: R,
    index: SectionIndex,
) -> Option<&'d [u8]> {
    let section = file.elf_section_table().section(index).ok()?;
    if section.sh_size(endian) > TABLE_BYTES {
        return None;
    }
    section.data(endian, data).ok()
}

/// Where the byte at a virtual address lies in the file, if it is code that comes from there.
fn file_offset<'d, R: ReadRef<'d>>(
    file: &ElfFile64<'d, Endianness, R>,
    endian: Endianness,
    address: u64,
) -> Option<u64> {
    file.elf_program_headers().iter().find_map(|segment| {
        let executable = segment.p_flags(endian) & elf::PF_X != elf::ProgramFlags(0);
        if segment.p_type(endian) != elf::PT_LOAD || !executable {
            return None;
        }
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    })
}

fn string_at(strings: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = strings.get(offset..)?;
    rest.get(..rest.iter().position(|&b| b == 0)?)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, b| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{b:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const SOURCE: &str = "
        int cudaFree(void *p) { return p != 0; }
        int cudaStreamSynchronize(void *s) { return s != 0; }
        __attribute__((alias(\"cudaStreamSynchronize\"))) int cudaStreamSynchronize_ptsz(void *s);
        extern int cudaMalloc(void **p, unsigned long n);
        int not_ours(void) { return cudaMalloc(0, 1); }
        int cudaMemset = 3;
        static int cudaEventRecord(void *e) { return e != 0; }
        int (*keep)(void *) = cudaEventRecord;
    ";

    /// The compiler's output, or nothing where there is no compiler.
    fn compiled(flags: &[&str], name: &str) -> Option<(tempfile::TempDir, File)> {
        let dir = tempfile::tempdir().unwrap();
        let (source, out) = (dir.path().join("x.c"), dir.path().join(name));
        std::fs::write(&source, SOURCE).unwrap();
        let mut cc = Command::new("cc");
        cc.args(flags).arg("-o").arg(&out).arg(&source);
        cc.status().ok().filter(|s| s.success())?;
        let file = File::open(&out).unwrap();
        Some((dir, file))
    }

    fn names(elf: &Elf) -> Vec<&'static str> {
        let mut names: Vec<_> = elf.points.iter().map(|p| FUNCTIONS[p.function].symbol).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn defined_functions_once_per_address() {
        let flags = ["-shared", "-fPIC", "-Wl,--build-id", "-Wl,-rpath,$ORIGIN/../x:/y"];
        let Some((_dir, file)) = compiled(&flags, "libcudart.so") else {
            return;
        };
        let elf = Elf::read(&file).unwrap();
        // The static one is in .symtab alone; the alias and the data object are no places of their own.
        assert_eq!(names(&elf), ["cudaEventRecord", "cudaFree", "cudaStreamSynchronize"]);
        assert_eq!(elf.build_id.len(), 40);
        assert!(elf.needed.iter().all(|n| n.starts_with(b"libc.so")));
        let dirs = if elf.rpath.is_empty() { &elf.runpath } else { &elf.rpath };
        assert_eq!(dirs, &[b"$ORIGIN/../x".to_vec(), b"/y".to_vec()]);
    }

    #[test]
    fn a_stripped_library_shows_its_exports() {
        let Some((_dir, file)) = compiled(&["-shared", "-fPIC", "-s"], "libcudart.so") else {
            return;
        };
        assert_eq!(names(&Elf::read(&file).unwrap()), ["cudaFree", "cudaStreamSynchronize"]);
    }

    #[test]
    fn places_are_file_offsets() {
        let Some((dir, file)) = compiled(&["-shared", "-fPIC", "-O1"], "libcudart.so") else {
            return;
        };
        let elf = Elf::read(&file).unwrap();
        let bytes = std::fs::read(dir.path().join("libcudart.so")).unwrap();
        let objdump = Command::new("objdump").args(["-F", "-d"]).arg(dir.path().join("libcudart.so")).output();
        let Ok(objdump) = objdump else { return };
        let text = String::from_utf8(objdump.stdout).unwrap();
        for p in &elf.points {
            let name = FUNCTIONS[p.function].symbol;
            let line = text.lines().find(|l| l.contains(&format!("<{name}")) && l.contains("File Offset"));
            let line = line.unwrap_or_else(|| panic!("{name} not in the listing"));
            assert!(line.contains(&format!("File Offset: 0x{:x}", p.file_offset)), "{line}");
            assert!(usize::try_from(p.file_offset).unwrap() < bytes.len());
        }
    }

    #[test]
    fn damaged_files_are_refused_or_read_never_fatal() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let head = &bytes[..bytes.len().min(4096)];
        for cut in [0, 1, 4, 16, 63, 64, 100, 1000, head.len()] {
            let _ = Elf::parse(&head[..cut]);
        }
        let Some((dir, _)) = compiled(&["-shared", "-fPIC"], "x.so") else {
            return;
        };
        let good = std::fs::read(dir.path().join("x.so")).unwrap();
        let mut seed = 1u32;
        for _ in 0..2000 {
            let mut bad = good.clone();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = usize::try_from(seed >> 8).unwrap() % bad.len();
                bad[at] = seed.to_le_bytes()[3];
            }
            let _ = Elf::parse(&bad[..]);
        }
        assert_eq!(Elf::parse(&b"#!/bin/sh\n"[..]), None);
    }
}
