import type { Command } from 'commander';
import { httpUrl, wholeNumber } from './arguments.ts';
import type { ModelFlags } from './model-settings.ts';
import type { TraceFlags } from './trace-view.ts';

/** What the command line says about turns. */
export interface TurnFlags extends ModelFlags, TraceFlags {
  readonly system?: string;
  readonly maxIterations?: number;
  /** A file of tools, in place of the built-in ones. */
  readonly tools?: string;
}

/** Adds the options that `run` and `chat` share. */
export function addTurnFlags(command: Command): Command {
  return command
    .option(
      '--base-url <url>',
      'an OpenAI-compatible server, e.g. a LiteLLM proxy (or OPENAI_BASE_URL, LITELLM_BASE_URL)',
      httpUrl,
    )
    .option('--model <name>', 'the model to ask there (or OPENAI_MODEL, LITELLM_MODEL)')
    .option('--api-key-env <variable>', 'the environment variable that holds the API key (default: OPENAI_API_KEY)')
    .option('--system <text>', 'a system prompt')
    .option('--max-iterations <number>', 'model calls a turn may make (default: 10)', wholeNumber(1))
    .option('--tools <file>', 'an ES module whose default export is an array of tools, in place of the built-in ones')
    .option('--trace', 'show the spans of each turn as a waterfall')
    .option('--otlp <url>', 'send the spans to an OTLP receiver, e.g. http://localhost:4318', httpUrl);
}
