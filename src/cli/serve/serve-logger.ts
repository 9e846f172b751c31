import { AgentLoopError, type Logger } from '../../core/contracts/index.ts';
import { complain, note } from '../notes.ts';
import type { Terminal } from '../terminal.ts';

/**
 * What a server logs, on stderr: by pino as lines of JSON where that is asked for, else only what somebody should look at, as sentences.
 * Errors: `MISSING_PACKAGE`.
 */
export async function serveLogger(terminal: Terminal, structured: boolean): Promise<Logger> {
  if (structured) return jsonLogger(terminal);
  return {
    debug() {},
    info() {},
    warn: (message, fields) => note(terminal, sentence(message, fields)),
    error: (message, fields) => complain(terminal, sentence(message, fields)),
  };
}

async function jsonLogger({ stderr }: Terminal): Promise<Logger> {
  const { pinoLogger } = await import('../../a2a/server/pino-logger.ts');
  try {
    const { pino } = await import('pino');
    return pinoLogger(pino({ name: 'millrace' }, { write: (line: string) => void stderr.write(line) }));
  } catch (cause) {
    const message = 'The package "pino" cannot be loaded; run `npm install pino`, or leave --log out.';
    throw new AgentLoopError('MISSING_PACKAGE', message, { cause });
  }
}

function sentence(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const told = Object.entries(fields).map(([name, value]) => `${name} ${String(value)}`);
  return told.length === 0 ? message : `${message} (${told.join(', ')})`;
}
