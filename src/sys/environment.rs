//! The environment block of this process, as the kernel has placed it (environ(7), proc_pid_environ(5)).

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Overwrites the value of this variable in the block that `/proc/PID/environ` shows. The name stays,
/// followed by NUL bytes. Only while this process has a single thread: another one could be reading.
pub fn wipe_variable(name: &str) {
    // SAFETY: the C library has set it up before main.
    let mut entry = unsafe { environ };
    loop {
        if entry.is_null() {
            return;
        }
        // SAFETY: the array ends with a null pointer, and has not been walked past it.
        let text = unsafe { *entry };
        if text.is_null() {
            return;
        }
        // SAFETY: each entry is a NUL-terminated string.
        let length = unsafe { libc::strlen(text) };
        // SAFETY: these are its bytes, and there is no other reference to them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(text.cast::<u8>(), length) };
        if let Some((own_name, [b'=', value @ ..])) = bytes.split_at_mut_checked(name.len())
            && own_name == name.as_bytes()
        {
            value.fill(0);
        }
        // SAFETY: the entry was not the last, so there is one more.
        entry = unsafe { entry.add(1) };
    }
}
