#!/usr/bin/env node
import { runProgram } from './program.ts';
import { openTerminal } from './terminal.ts';

const terminal = openTerminal(process.stdout, process.stderr, process.env);
const exitCode = await runProgram(process.argv.slice(2), {
  terminal,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  exitAtOnce: (code) => process.exit(code),
  exitCode: 0,
});
await Promise.all([terminal.stdout.flush(), terminal.stderr.flush()]);
// A tool of the user may hold the process open.
process.exit(exitCode);
