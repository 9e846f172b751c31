import type { Message } from '../core/messages.ts';
import type { FinishedSpan } from '../observability/finished-span.ts';
import { foldShown, keptOfBrokenTurn, type ShownTexts } from './conversation.ts';
import { type Ending, endingOf } from './ending.ts';
import { followTurn } from './follow-turn.ts';
import { complain } from './notes.ts';
import { oneLine, pad } from './one-line.ts';
import type { Session } from './session.ts';
import { showTally, showWaterfall } from './summary.ts';
import type { Terminal } from './terminal.ts';
import { TextPrinter } from './text-printer.ts';

const commands: readonly (readonly [name: string, purpose: string])[] = [
  ['/help', 'this list'],
  ['/tools', 'the tools that the model may call'],
  ['/trace', 'the spans of the last turn'],
  ['/quit', 'leave; Ctrl-D does too, and Ctrl-C at the prompt'],
];

export interface ChatOptions {
  readonly session: Session;
  readonly terminal: Terminal;
  /** Shows the spans of each turn. */
  readonly traceEach: boolean;
}

/** A conversation in the terminal: the turns of one context, each with what was said before. */
export class Chat {
  readonly #options: ChatOptions;
  readonly #contextId = crypto.randomUUID();
  #history: readonly Message[] = [];
  #spans: readonly FinishedSpan[] = [];

  constructor(options: ChatOptions) {
    this.#options = options;
  }

  /** Follows a command, which is a word after `/`; false where it was the one to leave. */
  async command(name: string): Promise<boolean> {
    const { session, terminal } = this.#options;
    if (name === '/quit' || name === '/exit') return false;
    if (name === '/help') this.#list(commands);
    else if (name === '/tools') this.#list(session.tools.map((tool) => [tool.name, tool.description]));
    else if (name === '/trace') await this.#showSpans();
    else complain(terminal, `${name} is not a command; /help lists them`);
    return true;
  }

  /** Runs a turn. Where it does not complete, the question and what was shown of the answer stay in the conversation. */
  async say(content: string, signal: AbortSignal): Promise<Ending['exitCode']> {
    const { session, terminal } = this.#options;
    const question: Message = { role: 'user', content };
    const turn = session.loop.startTurn([...this.#history, question], { signal, contextId: this.#contextId });
    const printer = new TextPrinter(terminal);
    let shown: ShownTexts = new Map();
    const tally = await followTurn(turn, {
      print(event) {
        shown = foldShown(shown, event);
        return printer.print(event);
      },
      close: () => printer.close(),
    });
    this.#spans = session.trace?.takeSpans() ?? [];
    const ending = endingOf(tally.final, { readerLeft: terminal.stdout.closed.aborted });
    if (ending.exitCode === 0) this.#history = (await turn.result()).messages;
    else this.#history = [...this.#history, ...keptOfBrokenTurn(question, shown)];
    if (ending.sentence !== undefined) complain(terminal, ending.sentence);
    else showTally(tally, terminal);
    if (this.#options.traceEach) await this.#showSpans();
    return ending.exitCode;
  }

  async #showSpans(): Promise<void> {
    const { terminal } = this.#options;
    if (this.#spans.length > 0) await showWaterfall(this.#spans, terminal);
    else complain(terminal, 'there is no turn to show yet');
  }

  #list(rows: readonly (readonly [string, string])[]): void {
    const { stderr, errorStyle } = this.#options.terminal;
    const width = rows.reduce((most, [name]) => Math.max(most, name.length), 0);
    const lines = rows.map(([name, text]) => `  ${errorStyle.bold(pad(name, width))}  ${oneLine(text)}\n`);
    void stderr.write(lines.join(''));
  }
}
