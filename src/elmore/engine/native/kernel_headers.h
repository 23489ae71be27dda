// What each file that compiles kernels includes before it enables instructions.
#pragma once

#include "kernel_table.h"
#include "kernels.h"
#include "memory.h"
#include "platform.h"
#include "threads.h"
