import { readFileSync } from 'node:fs';
import { debuglog, inspect } from 'node:util';
import { Command, CommanderError } from 'commander';
import { AgentLoopError, type ErrorCode, messageOf } from '../core/contracts/index.ts';
import { type CommandHost, Interrupted, ownFile } from './command-host.ts';
import { addBatchCommand } from './commands/batch-command.ts';
import { addChatCommand } from './commands/chat-command.ts';
import { addDemoCommand } from './commands/demo-command.ts';
import { addDoctorCommand } from './commands/doctor-command.ts';
import { addFleetCommand } from './commands/fleet-command.ts';
import { addInspectCommand } from './commands/inspect-command.ts';
import { addMcpCommand } from './commands/mcp-command.ts';
import { addModelCommand } from './commands/model-command.ts';
import { addReplayCommand } from './commands/replay-command.ts';
import { addResumeCommand, addRetryCommand, addRunCommand } from './commands/run-command.ts';
import { addServeCommand } from './commands/serve-command.ts';
import { addShowCommand } from './commands/show-command.ts';
import { addJournalCommands, addStoreCommand } from './commands/store-command.ts';
import { addCancelCommand, addForkCommand, addTasksCommand } from './commands/tasks-command.ts';
import { addWorkerCommand } from './commands/worker-command.ts';
import { sentenceOf } from './ending.ts';
import { complain } from './terminal.ts';

const debug = debuglog('millrace');

/** Errors, before a turn runs, that the one who typed the command can mend. */
const usageCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['INVALID_CONFIG', 'INVALID_INPUT', 'DUPLICATE_TOOL']);

/**
 * Runs the command line and resolves with the exit code: 0 completed, 1 failed, 2 usage, 3 suspended, 128 and the number of the signal
 * that interrupted it. Never rejects: what goes wrong is one sentence on stderr; `NODE_DEBUG=millrace` adds the stack.
 */
export async function runProgram(argv: readonly string[], host: CommandHost): Promise<number> {
  try {
    await createProgram(host).parseAsync([...argv], { from: 'user' });
    return host.exitCode;
  } catch (thrown) {
    return failedWith(thrown, host);
  }
}

function createProgram(host: CommandHost): Command {
  const { stdout, stderr } = host.terminal;
  const program = new Command('millrace')
    .description('Run agent turns: a model, its tools, a trace. `millrace demo` is a tour, without a key.')
    .version(packageVersion())
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      outputError: (text) =>
        complain(
          host.terminal,
          text
            .replace(/^error: /, '')
            .trim()
            .replace(/\n/g, ' '),
        ),
      getOutHelpWidth: () => Math.min(stdout.columns, 100),
      getErrHelpWidth: () => Math.min(stderr.columns, 100),
    })
    .showHelpAfterError('(--help lists commands and options)')
    .exitOverride();
  addDemoCommand(program, host);
  addRunCommand(program, host);
  addChatCommand(program, host);
  addBatchCommand(program, host);
  addResumeCommand(program, host);
  addRetryCommand(program, host);
  addTasksCommand(program, host);
  addShowCommand(program, host);
  addInspectCommand(program, host);
  addCancelCommand(program, host);
  addForkCommand(program, host);
  addReplayCommand(program, host);
  addJournalCommands(program, host);
  addStoreCommand(program, host);
  addServeCommand(program, host);
  addWorkerCommand(program, host);
  addFleetCommand(program, host);
  addMcpCommand(program, host);
  addModelCommand(program, host);
  addDoctorCommand(program, host);
  return program;
}

function failedWith(thrown: unknown, host: CommandHost): number {
  if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2;
  if (thrown instanceof Interrupted) return thrown.exitCode;
  debug('%s', inspect(thrown));
  if (!AgentLoopError.isInstance(thrown)) {
    complain(host.terminal, messageOf(thrown));
    return 1;
  }
  const isUsage = usageCodes.has(thrown.code);
  complain(host.terminal, isUsage ? thrown.message.replace(/\.$/, '') : sentenceOf(thrown));
  return isUsage ? 2 : 1;
}

function packageVersion(): string {
  const file: unknown = JSON.parse(readFileSync(ownFile('package.json'), 'utf8'));
  const version = typeof file === 'object' && file !== null && 'version' in file ? file.version : undefined;
  return typeof version === 'string' ? version : 'unknown';
}
