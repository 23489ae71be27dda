// The library's memory, which runs out when a test wants it to.
#pragma once

// Let this many more allocations succeed; a negative number for all.
void allow_allocations(int count);
