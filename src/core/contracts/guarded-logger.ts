import type { Logger } from './config.ts';
import { logFields, logText } from './log-text.ts';

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
