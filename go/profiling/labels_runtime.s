// SPDX-License-Identifier: Apache-2.0

// This file is empty: with it the compiler accepts the functions without a body in labels_runtime.go.
