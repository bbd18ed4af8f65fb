//! Whoever called `sudo`: as whom a command runs with `--user`, and to whom its recording belongs.

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Result, anyhow, bail};

/// Most groups that a user may be in (`NGROUPS_MAX`).
const GROUPS: usize = 65_536;

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Id.
    pub uid: u32,
    /// Main group.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
    /// Its name; empty where the system has none for the id.
    pub name: OsString,
    /// Its folder.
    pub home: OsString,
    /// Its shell.
    pub shell: OsString,
}

impl User {
    /// The user who called `sudo`, by its variables.
    ///
    /// # Errors
    /// When this is not run by `sudo`, or by root through it.
    pub fn behind_sudo() -> Result<Self> {
        Self::from_words(|name| std::env::var(name).ok())
    }

    fn from_words(word: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let id = |name: &str| -> Result<u32> {
            let text = word(name).ok_or_else(|| {
                anyhow!(
                    "--user: {name} is not set, so nobody called sudo; start the recorder by sudo, or leave --user out"
                )
            })?;
            text.parse().map_err(|_| anyhow!("--user: {name} is {text:?}, which is no id"))
        };
        let (uid, gid) = (id("SUDO_UID")?, id("SUDO_GID")?);
        if uid == 0 {
            bail!("--user: it was root who called sudo (SUDO_UID is 0); leave --user out");
        }
        Ok(Self::of_id(uid, gid))
    }

    /// What the system knows of an id.
    fn of_id(uid: u32, gid: u32) -> Self {
        let mut user = Self {
            uid,
            gid,
            groups: vec![gid],
            name: OsString::new(),
            home: OsString::from("/"),
            shell: OsString::from("/bin/sh"),
        };
        let mut text = vec![0_u8; 16 << 10];
        // SAFETY: a zeroed structure of pointers and numbers is a valid place for the result.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are to live memory of the lengths given.
        let failed =
            unsafe { libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr().cast(), text.len(), &raw mut found) };
        if failed != 0 || found.is_null() {
            return user;
        }
        // SAFETY: the call succeeded: these are C strings inside `text`.
        let [name, home, shell] = unsafe {
            [entry.pw_name, entry.pw_dir, entry.pw_shell].map(|word| CStr::from_ptr(word).to_bytes().to_vec())
        };
        let mut groups = vec![0_u32; GROUPS];
        let mut count = i32::try_from(GROUPS).unwrap_or(i32::MAX);
        if let Ok(c_name) = CString::new(name.clone()) {
            // SAFETY: the name is a C string, and there is room for as many groups as `count` says.
            let listed = unsafe { libc::getgrouplist(c_name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
            if listed >= 0 {
                groups.truncate(usize::try_from(count).unwrap_or(0));
                user.groups = groups;
            }
        }
        let [name, home, shell] = [name, home, shell].map(OsString::from_vec);
        Self { name, home, shell, ..user }
    }

    /// The environment as this user expects it: `HOME`, `USER`, `LOGNAME` and `SHELL` are the user's own, and what
    /// `sudo` has added is gone. `PATH` stays what the recorder was given.
    #[must_use]
    pub fn environment(&self, of_recorder: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
        let own = ["HOME", "USER", "LOGNAME", "SHELL", "MAIL"];
        let others =
            of_recorder.filter(|(name, _)| !own.iter().any(|n| name == n) && !name.as_bytes().starts_with(b"SUDO_"));
        let mut all: Vec<_> = others.collect();
        all.push(("HOME".into(), self.home.clone()));
        all.push(("SHELL".into(), self.shell.clone()));
        if !self.name.is_empty() {
            all.push(("USER".into(), self.name.clone()));
            all.push(("LOGNAME".into(), self.name.clone()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(words: &[(&str, &str)]) -> Result<User> {
        User::from_words(|name| words.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn who_called_sudo() {
        // Debian's own account number 1.
        let user = behind(&[("SUDO_UID", "1"), ("SUDO_GID", "1")]).unwrap();
        assert_eq!((user.uid, user.gid), (1, 1));
        assert!(user.groups.contains(&1));
        let unknown = behind(&[("SUDO_UID", "4294900000"), ("SUDO_GID", "77")]).unwrap();
        assert_eq!((unknown.groups, unknown.home), (vec![77], "/".into()));
        assert!(behind(&[]).unwrap_err().to_string().contains("nobody called sudo"));
        assert!(behind(&[("SUDO_UID", "0"), ("SUDO_GID", "0")]).unwrap_err().to_string().contains("root"));
        assert!(behind(&[("SUDO_UID", "x"), ("SUDO_GID", "0")]).unwrap_err().to_string().contains("no id"));
    }

    #[test]
    fn the_environment_is_the_users() {
        let user = User {
            uid: 7,
            gid: 7,
            groups: vec![7],
            name: "ann".into(),
            home: "/home/ann".into(),
            shell: "/bin/zsh".into(),
        };
        let of_root = [("HOME", "/root"), ("USER", "root"), ("SUDO_UID", "7"), ("PATH", "/bin"), ("X", "1")];
        let env = user.environment(of_root.into_iter().map(|(n, v)| (n.into(), v.into())));
        let value =
            |name: &str| env.iter().filter(|(n, _)| n == name).map(|(_, v)| v.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(value("HOME"), ["/home/ann"]);
        assert_eq!(value("USER"), ["ann"]);
        assert_eq!(value("PATH"), ["/bin"]);
        assert_eq!(value("X"), ["1"]);
        assert!(value("SUDO_UID").is_empty());
    }
}
