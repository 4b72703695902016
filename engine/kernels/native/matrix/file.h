// Read an open file at any offset, from several threads at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#undef near  // macros for 16-bit Windows, which stand for nothing now
#undef far
#else
#include <cerrno>
#include <unistd.h>
#endif

namespace foretoken {

// A file descriptor; on Windows a handle, since a descriptor is valid only in the C library that opened it.
using File = intptr_t;

constexpr size_t MAX_READ = size_t{1} << 30;  // bytes of one call; systems allow up to 2 GB

// Read up to `bytes` bytes at offset `at`. Return how many were read: 0 at the end of the file, negative on an error.
inline int64_t read_some(File file, void* to, size_t bytes, uint64_t at) {
    bytes = std::min(bytes, MAX_READ);
#ifdef _WIN32
    OVERLAPPED offset{};
    offset.Offset = DWORD(at);
    offset.OffsetHigh = DWORD(at >> 32);
    DWORD count = 0;
    return ReadFile(reinterpret_cast<HANDLE>(file), to, DWORD(bytes), &count, &offset) ? int64_t(count) : -1;
#else
    while (true) {
        const ssize_t count = pread(int(file), to, bytes, off_t(at));
        if (count >= 0 || errno != EINTR) return count;
    }
#endif
}

// Return whether all bytes could be read.
inline bool read_at(File file, uint8_t* to, size_t bytes, uint64_t at) {
    for (int64_t count; bytes > 0; to += count, bytes -= size_t(count), at += uint64_t(count))
        if ((count = read_some(file, to, bytes, at)) <= 0) return false;
    return true;
}

// Append bytes to a file; return whether all could be written.
inline bool write_all(File file, const uint8_t* from, size_t bytes) {
    while (bytes > 0) {
#ifdef _WIN32
        DWORD count = 0;
        if (!WriteFile(reinterpret_cast<HANDLE>(file), from, DWORD(std::min(bytes, MAX_READ)), &count, nullptr)) return false;
#else
        const ssize_t count = write(int(file), from, std::min(bytes, MAX_READ));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
#endif
        from += count, bytes -= size_t(count);
    }
    return true;
}

}  // namespace foretoken
