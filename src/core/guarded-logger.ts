import type { Logger } from './config.ts';

/** The same logger for code that it must not disturb: what it throws is dropped. */
export function guardedLogger(logger: Logger): Logger {
  const guarded =
    (level: keyof Logger): Logger[keyof Logger] =>
    (message, fields) => {
      try {
        logger[level](message, fields);
      } catch {
        // There is nobody left to tell.
      }
    };
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') };
}
