// What Python calls. Other systems show every function of a library, Windows those that are named so.
#pragma once

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED
#endif
