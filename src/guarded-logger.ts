import { isPlainObject, isSecretName, type Logger, secretMark, withoutForms } from './core/contracts/index.ts';

const levels = ['debug', 'info', 'warn', 'error'] as const;
const guardedOnes = new WeakSet<Logger>();

/**
 * Wraps a logger so that its exceptions are dropped. Messages and fields may contain text from clients, models, tools and servers, so control characters and
 * line breaks in them are escaped, and what looks like a secret is removed. What is no logger is returned, for who checks the options.
 */
export function guardedLogger<L extends Logger | undefined>(logger: L): L;
export function guardedLogger(logger: Logger | undefined): Logger | undefined {
  if (!logger || guardedOnes.has(logger) || levels.some((level) => typeof logger[level] !== 'function')) return logger;
  const guarded =
    (level: keyof Logger): Logger[keyof Logger] =>
    (message, fields) => {
      try {
        logger[level](cleanText(message), fields && logFields(fields));
      } catch {
        // A failing logger cannot be reported anywhere.
      }
    };
  const wrapped = { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') };
  guardedOnes.add(wrapped);
  return wrapped;
}

/**
 * Characters that end a line or control a terminal: control characters, line and paragraph separators, and bidirectional overrides. A
 * line break before a stack frame is kept: it cannot forge a log line.
 */
const unsafe =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escaping them is the purpose.
  /\n(?! {2,}at )|[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

const short: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** The same, and also line breaks of stacks: characters that are not allowed in names. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose.
export const unsafeInLogs = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

/** Escapes text for a log or a terminal: unsafe characters become JSON escapes, `\n` or `\u001b`. */
export function logText(text: string): string {
  return text.replace(unsafe, (found) => short.get(found) ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function cleanText(text: string): string {
  return logText(withoutForms(text));
}

/** A field of a log, with all strings cleaned, also in arrays and plain objects. */
function logValue(value: unknown): unknown {
  if (typeof value === 'string') return cleanText(value);
  if (Array.isArray(value)) return value.map(logValue);
  return isPlainObject(value) && !(value instanceof Error) ? logFields(value) : value;
}

function logFields(fields: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      logText(name),
      typeof value === 'string' && isSecretName(name) ? secretMark : logValue(value),
    ]),
  );
}
