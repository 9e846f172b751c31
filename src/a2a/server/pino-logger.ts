import type { Logger } from '../../core/contracts/index.ts';

/** What of a logger of pino is used; others of its form fit too. */
export type PinoLike = {
  readonly [Level in keyof Logger]: (fields: object, message: string) => void;
};

/** Writes what the engine logs to a logger of pino: ids, codes and numbers as fields, never content or keys. */
export function pinoLogger(pino: PinoLike): Logger {
  return {
    debug: (message, fields = {}) => pino.debug(fields, message),
    info: (message, fields = {}) => pino.info(fields, message),
    warn: (message, fields = {}) => pino.warn(fields, message),
    error: (message, fields = {}) => pino.error(fields, message),
  };
}
