import type { Logger } from 'millrace';

type Line = readonly [level: keyof Logger, message: string, fields?: Readonly<Record<string, unknown>>];

/** A logger that keeps what it is told. */
export function recordingLogger(): Logger & { readonly lines: readonly Line[] } {
  const lines: Line[] = [];
  const at =
    (level: keyof Logger): Logger[keyof Logger] =>
    (message, fields) =>
      lines.push(fields === undefined ? [level, message] : [level, message, fields]);
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
