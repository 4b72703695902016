// Bytes at places of a file that is open, for several threads at once.
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
#undef near  // words of 1985, which stand for nothing now
#undef far
#else
#include <cerrno>
#include <unistd.h>
#endif

namespace foretoken {

// A descriptor, on Windows a handle: a descriptor means something only to the C library that gave it.
using File = intptr_t;

constexpr size_t MOST_READ = size_t{1} << 30;  // at once; systems give up to 2 GB

// How many bytes were read, at most so many; 0 at the end of the file, less where it cannot be read.
inline int64_t read_some(File file, void* to, size_t bytes, uint64_t at) {
    bytes = std::min(bytes, MOST_READ);
#ifdef _WIN32
    OVERLAPPED place{};
    place.Offset = DWORD(at);
    place.OffsetHigh = DWORD(at >> 32);
    DWORD count = 0;
    return ReadFile(reinterpret_cast<HANDLE>(file), to, DWORD(bytes), &count, &place) ? int64_t(count) : -1;
#else
    while (true) {
        const ssize_t count = pread(int(file), to, bytes, off_t(at));
        if (count >= 0 || errno != EINTR) return count;
    }
#endif
}

// Whether all of them were there.
inline bool read_at(File file, uint8_t* to, size_t bytes, uint64_t at) {
    for (int64_t count; bytes > 0; to += count, bytes -= size_t(count), at += uint64_t(count))
        if ((count = read_some(file, to, bytes, at)) <= 0) return false;
    return true;
}

}  // namespace foretoken
