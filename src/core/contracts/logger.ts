/** Where the engine writes what an operator of a service wants to know: ids, codes, numbers and errors; no prompts, answers, arguments or results. */
export interface Logger {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/**
 * The same logger for code that it must not disturb: what it throws is dropped. Messages and fields may hold what clients, models and
 * tools said, so control characters and line breaks in them are escaped.
 */
export function guardedLogger(logger: Logger): Logger {
  const guarded =
    (level: keyof Logger): Logger[keyof Logger] =>
    (message, fields) => {
      try {
        logger[level](logText(message), fields && logFields(fields));
      } catch {
        // There is nobody left to tell.
      }
    };
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') };
}

/**
 * What ends a line or steers a terminal: control characters, the separators of lines and paragraphs, and what turns the direction of
 * text. A line break before a frame of a stack is kept: it forges no line of a log.
 */
const unsafe =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escaping them is the purpose.
  /\n(?! {2,}at )|[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const short: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** The same without line breaks of stacks: what a name must not have. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose.
export const unsafeInLogs = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** The text for a log or a terminal: what is unsafe there is written as in JSON, `\n` or `\u001b`. */
export function logText(text: string): string {
  return text.replace(unsafe, (found) => short.get(found) ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A field of a log: its texts as `logText` writes them, also in arrays and plain objects. */
function logValue(value: unknown): unknown {
  if (typeof value === 'string') return logText(value);
  if (Array.isArray(value)) return value.map(logValue);
  if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype)
    return logFields(value);
  return value;
}

function logFields(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [logText(name), logValue(value)]));
}
