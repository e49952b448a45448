//! SQLite's files on a [`Disk`]: a VFS that hands every call to the one that SQLite has, and writes down what
//! would be on the disk.
//!
//! It becomes the process's default, so that `Sqlite::open` runs on it as it is. Files in a directory that
//! [`mount`] has not named go to SQLite's own VFS untouched. Locks and the shared memory of a write-ahead log are
//! SQLite's own everywhere; neither is on a disk. When the power is off each call but those that let go fails.
//!
//! All of this test's unsafe code is here.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use rusqlite::ffi;

use crate::power_cut::disk::{Disk, FileNumber};

/// The level that each connection to a file is made to run at, whatever it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    AsAsked,
    Normal,
    Off,
}

/// Puts the files of `directory` on `disk` until the mount is dropped.
pub fn mount(directory: &Path, disk: Arc<Disk>, synchronous: Synchronous) -> Mount {
    install();
    let directory = directory.canonicalize().expect("the directory is there");
    MOUNTED.lock().insert(directory.clone(), (disk, synchronous));
    Mount(directory)
}

pub struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        MOUNTED.lock().remove(&self.0);
    }
}

static MOUNTED: Mutex<BTreeMap<PathBuf, (Arc<Disk>, Synchronous)>> = Mutex::new(BTreeMap::new());

/// The disk of a file and its name there.
fn find(path: &Path) -> Option<(Arc<Disk>, Synchronous, String)> {
    let (disk, synchronous) = MOUNTED.lock().get(path.parent()?).cloned()?;
    Some((disk, synchronous, path.file_name()?.to_str()?.to_owned()))
}

/// # Safety
///
/// `name` is null or a string that ends in a null byte.
unsafe fn find_named(name: *const c_char) -> Option<(Arc<Disk>, Synchronous, String)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller promises the rest.
    let name = unsafe { CStr::from_ptr(name) };
    find(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Makes the VFS the default, once, and before this process opens a database.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `sqlite3_vfs_find` initialises SQLite and gives its default VFS, which lives as long as the
        // process. A copy of it is registered, with the four functions that look at `pAppData` or at a file
        // replaced; those that stay (time, randomness, loading) look at neither. The box is leaked: SQLite
        // keeps it.
        unsafe {
            let own = ffi::sqlite3_vfs_find(ptr::null());
            assert_eq!(CStr::from_ptr((*own).zName), c"unix");
            let layered = Box::leak(Box::new(*own));
            layered.zName = c"power-cut".as_ptr();
            layered.pNext = ptr::null_mut();
            layered.szOsFile = (*own).szOsFile.max(size_of::<Handle>() as c_int);
            layered.pAppData = own.cast();
            layered.xOpen = Some(open);
            layered.xDelete = Some(delete);
            layered.xAccess = Some(access);
            layered.xFullPathname = Some(full_pathname);
            observe_directory_syncs(own);
            assert_eq!(ffi::sqlite3_vfs_register(layered, 1), ffi::SQLITE_OK);
            assert_eq!(ffi::sqlite3_auto_extension(Some(connected)), ffi::SQLITE_OK);
        }
    });
}

/// SQLite syncs a directory by a function of its own that it lets others replace: where it does so is seen
/// and not assumed.
///
/// # Safety
///
/// `own` is SQLite's unix VFS, and no other thread uses it yet.
unsafe fn observe_directory_syncs(own: *mut ffi::sqlite3_vfs) {
    let name = c"openDirectory".as_ptr();
    // SAFETY: the unix VFS has both functions and a system call of this name, of the type `OpenDirectory`
    // (`osOpenDirectory` in os_unix.c), which is what `open_directory` is.
    unsafe {
        let real = (*own).xGetSystemCall.expect("unix has it")(own, name).expect("unix has it");
        OPEN_DIRECTORY.store(real as usize, Ordering::SeqCst);
        let ours = mem::transmute::<OpenDirectory, unsafe extern "C" fn()>(open_directory);
        assert_eq!((*own).xSetSystemCall.expect("unix has it")(own, name, Some(ours)), ffi::SQLITE_OK);
    }
}

type OpenDirectory = unsafe extern "C" fn(*const c_char, *mut c_int) -> c_int;

static OPEN_DIRECTORY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread opened a directory since it was last asked. SQLite opens one only to sync it.
    static DIRECTORY_SYNCED: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn open_directory(path: *const c_char, descriptor: *mut c_int) -> c_int {
    // SAFETY: the address is that of a function of this type (`observe_directory_syncs`), and it gets what
    // SQLite gave for it.
    let code = unsafe {
        let real = mem::transmute::<usize, OpenDirectory>(OPEN_DIRECTORY.load(Ordering::SeqCst));
        real(path, descriptor)
    };
    if code == ffi::SQLITE_OK {
        DIRECTORY_SYNCED.set(true);
    }
    code
}

/// The handle that SQLite holds of an open file of ours. It allocates `szOsFile` bytes for it.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

struct Open {
    disk: Arc<Disk>,
    number: FileNumber,
    /// The file as SQLite's own VFS has it, in `_room`.
    real: *mut ffi::sqlite3_file,
    _room: Vec<MaybeUninit<u64>>,
}

/// # Safety
///
/// `file` was opened by [`open`] and is not closed.
unsafe fn open_of<'a>(file: *mut ffi::sqlite3_file) -> &'a Open {
    // SAFETY: then it is a `Handle` whose `open` is a leaked box that only `close` takes back.
    unsafe { &*(*file.cast::<Handle>()).open }
}

/// Calls a method of the file below.
macro_rules! below {
    ($open:expr, $method:ident $(, $argument:expr)*) => {
        // SAFETY: the file below is open, its methods are SQLite's own, and the arguments are those that SQLite
        // gave for this very method.
        unsafe { (*(*$open.real).pMethods).$method.expect("unix has it")($open.real $(, $argument)*) }
    };
}

/// # Safety
///
/// `vfs` is the one that [`install`] registered.
unsafe fn own(vfs: *mut ffi::sqlite3_vfs) -> *mut ffi::sqlite3_vfs {
    // SAFETY: then this is SQLite's own.
    unsafe { (*vfs).pAppData.cast() }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with the VFS that it was registered with, a name that is null or ends in a null
    // byte, and room for `szOsFile` bytes, which is enough for either kind of file.
    unsafe {
        let own = own(vfs);
        let real_open = (*own).xOpen.expect("unix has it");
        let Some((disk, _, entry)) = find_named(name) else {
            return real_open(own, name, file, flags, out_flags);
        };
        (*file).pMethods = ptr::null();
        let words = ((*own).szOsFile as usize).div_ceil(size_of::<u64>());
        let mut room = Vec::with_capacity(words);
        room.resize(words, MaybeUninit::<u64>::zeroed());
        let real: *mut ffi::sqlite3_file = room.as_mut_ptr().cast();
        let opened = disk.open(&entry, || real_open(own, name, real, flags, out_flags));
        let (code, number) = opened.unwrap_or((ffi::SQLITE_CANTOPEN, 0));
        if code != ffi::SQLITE_OK {
            return code;
        }
        let open = Box::new(Open { disk, number, real, _room: room });
        (*file.cast::<Handle>()).open = Box::into_raw(open);
        (*file).pMethods = &METHODS;
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: as in `open`.
    let (own, found) = unsafe { (own(vfs), find_named(name)) };
    let real = || {
        DIRECTORY_SYNCED.set(false);
        // SAFETY: SQLite's own VFS, with what SQLite gave for this method.
        let code = unsafe { (*own).xDelete.expect("unix has it")(own, name, sync) };
        (code, DIRECTORY_SYNCED.get())
    };
    match found {
        None => real().0,
        Some((disk, _, entry)) => disk.remove(&entry, real).unwrap_or(ffi::SQLITE_IOERR_DELETE),
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    found: *mut c_int,
) -> c_int {
    // SAFETY: as in `open`, and SQLite's own VFS gets what SQLite gave for this method.
    unsafe {
        if find_named(name).is_some_and(|(disk, ..)| disk.is_off()) {
            return ffi::SQLITE_IOERR_ACCESS;
        }
        let own = own(vfs);
        (*own).xAccess.expect("unix has it")(own, name, flags, found)
    }
}

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    full: *mut c_char,
) -> c_int {
    // SAFETY: SQLite's own VFS gets what SQLite gave for this method.
    unsafe {
        let own = own(vfs);
        (*own).xFullPathname.expect("unix has it")(own, name, room, full)
    }
}

/// Version 2: what a write-ahead log needs, and no memory-mapped reading.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls the methods below with files that `open` opened, and this one last and once, so that
    // the box is taken back once.
    let open = unsafe { Box::from_raw((*file.cast::<Handle>()).open) };
    below!(open, xClose)
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    if open.disk.is_off() { ffi::SQLITE_IOERR_READ } else { below!(open, xRead, to, len, at) }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: see `close`; and SQLite gives `len` bytes at `from`.
    let (open, bytes) =
        unsafe { (open_of(file), std::slice::from_raw_parts(from.cast::<u8>(), len as usize)) };
    let real = || below!(open, xWrite, from, len, at);
    open.disk.write(open.number, at as usize, bytes, real).unwrap_or(ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    let real = || below!(open, xTruncate, len);
    open.disk.truncate(open.number, len as usize, real).unwrap_or(ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    let real = || {
        DIRECTORY_SYNCED.set(false);
        let code = below!(open, xSync, flags);
        (code, DIRECTORY_SYNCED.get())
    };
    open.disk.sync(open.number, real).unwrap_or(ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    if open.disk.is_off() { ffi::SQLITE_IOERR_FSTAT } else { below!(open, xFileSize, size) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    if open.disk.is_off() { ffi::SQLITE_IOERR_LOCK } else { below!(open, xLock, level) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    below!(open, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    if open.disk.is_off() {
        ffi::SQLITE_IOERR_CHECKRESERVEDLOCK
    } else {
        below!(open, xCheckReservedLock, held)
    }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // Both are hints by which a file may grow without a write that the disk would see.
    if matches!(operation, ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE) {
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    below!(open, xFileControl, operation, argument)
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    below!(open, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    below!(open, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    len: c_int,
    extend: c_int,
    at: *mut *mut c_void,
) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    if open.disk.is_off() {
        ffi::SQLITE_IOERR_SHMMAP
    } else if region > 0 && extend != 0 && open.disk.is_memory_full() {
        ffi::SQLITE_IOERR_SHMSIZE
    } else {
        below!(open, xShmMap, region, len, extend, at)
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    from: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    let takes = flags & ffi::SQLITE_SHM_LOCK != 0;
    if takes && open.disk.is_off() {
        ffi::SQLITE_IOERR_SHMLOCK
    } else {
        below!(open, xShmLock, from, count, flags)
    }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    below!(open, xShmBarrier);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, remove: c_int) -> c_int {
    // SAFETY: see `close`.
    let open = unsafe { open_of(file) };
    below!(open, xShmUnmap, remove)
}

/// SQLite runs this on each new connection. Where a mount says so, `PRAGMA synchronous` is carried out here and
/// refused to everybody else: the store asks for its own and is told nothing.
unsafe extern "C" fn connected(
    connection: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the connection is open, its main file's name is null or ends in a null byte, the statements do
    // too, and `refuse_synchronous` needs no data of its own.
    unsafe {
        let name = ffi::sqlite3_db_filename(connection, c"main".as_ptr());
        let sql = match find_named(name) {
            Some((_, Synchronous::Normal, _)) => c"PRAGMA synchronous = NORMAL",
            Some((_, Synchronous::Off, _)) => c"PRAGMA synchronous = OFF",
            _ => return ffi::SQLITE_OK,
        };
        // A new or torn file cannot be read yet; a connection that can only read syncs nothing.
        if ffi::sqlite3_db_readonly(connection, c"main".as_ptr()) == 0 {
            ffi::sqlite3_exec(connection, sql.as_ptr(), None, ptr::null_mut(), ptr::null_mut());
            ffi::sqlite3_set_authorizer(connection, Some(refuse_synchronous), ptr::null_mut());
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn refuse_synchronous(
    _: *mut c_void,
    action: c_int,
    pragma: *const c_char,
    value: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    if action != ffi::SQLITE_PRAGMA || pragma.is_null() || value.is_null() {
        return ffi::SQLITE_OK;
    }
    // SAFETY: not null, and SQLite's strings end in a null byte.
    let pragma = unsafe { CStr::from_ptr(pragma) };
    let is_synchronous = pragma.to_bytes().eq_ignore_ascii_case(b"synchronous");
    if is_synchronous { ffi::SQLITE_IGNORE } else { ffi::SQLITE_OK }
}
