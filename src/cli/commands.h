/* SPDX-License-Identifier: Apache-2.0 */
/* The list of commands, in the order of `wick help`. A new one is a file and a word here. Included several times. */
COMMAND(serve)
COMMAND(query)
COMMAND(pgo)
COMMAND(mcp)
COMMAND(pprof)
COMMAND(collector)
COMMAND(store)
COMMAND(token)
COMMAND(convert)
COMMAND(run)
COMMAND(symbolize)
COMMAND(symbols)
