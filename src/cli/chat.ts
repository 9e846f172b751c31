import type { Message } from '../core/messages.ts';
import type { Turn } from '../core/turn.ts';
import { TurnError } from '../core/turn-result.ts';
import type { FinishedSpan } from '../observability/finished-span.ts';
import { extended, foldOpenText } from './conversation.ts';
import { type Ending, endingOf } from './ending.ts';
import { followTurn } from './follow-turn.ts';
import type { Interruption } from './interruption.ts';
import { complain, note } from './notes.ts';
import { oneLine, pad } from './one-line.ts';
import type { Printer } from './printer.ts';
import { showWaiting } from './questions.ts';
import type { Session } from './session.ts';
import { showTally, showWaterfall } from './summary.ts';
import type { Terminal } from './terminal.ts';
import { TextPrinter } from './text-printer.ts';
import { type NewTurnFlags, turnSettings } from './turn-flags.ts';
import { wrapLines } from './wrap-lines.ts';

const commands: readonly (readonly [name: string, purpose: string])[] = [
  ['/help', 'this list'],
  ['/tools', 'the tools that the model may call'],
  ['/trace', 'the spans of the last turn'],
  ['/quit', 'leave; Ctrl-D does too, and Ctrl-C at the prompt'],
];

export interface ChatOptions {
  readonly session: Session;
  readonly terminal: Terminal;
  /** `trace` shows the spans of each turn. */
  readonly flags: NewTurnFlags;
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

  /** Runs a turn, with all that was said before. */
  async say(content: string, interruption: Interruption): Promise<Ending['exitCode']> {
    const { session, terminal, flags } = this.#options;
    const question: Message = { role: 'user', content };
    const { closed } = terminal.stdout;
    const signal = AbortSignal.any([interruption.signal, closed]);
    const turn = session.loop.startTurn([...this.#history, question], {
      signal,
      contextId: this.#contextId,
      ...turnSettings(flags),
    });
    const printer = new TextPrinter(terminal);
    let openText = '';
    const listening: Printer = {
      print(event) {
        openText = foldOpenText(openText, event);
        return printer.print(event);
      },
      cancelling: () => printer.cancelling(),
      close: () => printer.close(),
    };
    const tally = await followTurn(turn, listening, signal);
    this.#spans = session.trace?.takeSpans() ?? [];
    const ending = endingOf(tally.final, { interrupted: interruption.exitCode, readerLeft: closed.aborted });
    this.#history = extended(this.#history, { question, added: await addedBy(turn), openText });
    if (ending.sentence !== undefined) complain(terminal, ending.sentence);
    else showTally(tally, terminal);
    if (ending.suspended && session.store.durable) {
      const place = { taskId: turn.taskId, store: session.store.settings, flags };
      showWaiting(tally.final?.questions ?? [], place, terminal);
    }
    if (flags.trace) await this.#showSpans();
    return ending.exitCode;
  }

  async #showSpans(): Promise<void> {
    const { terminal } = this.#options;
    if (this.#spans.length > 0) await showWaterfall(this.#spans, terminal);
    else note(terminal, 'there is no turn to show yet');
  }

  #list(rows: readonly (readonly [string, string])[]): void {
    const { stderr, errorStyle } = this.#options.terminal;
    const width = rows.reduce((most, [name]) => Math.max(most, name.length), 0);
    const lines = rows.flatMap(([name, text]) =>
      wrapLines(oneLine(text), Math.max(20, stderr.columns - width - 5)).map((line, index) => {
        return `  ${errorStyle.bold(pad(index === 0 ? name : '', width))}  ${line}\n`;
      }),
    );
    void stderr.write(lines.join(''));
  }
}

/** The messages of a turn that has ended, in whatever way. */
async function addedBy(turn: Turn): Promise<readonly Message[]> {
  try {
    return (await turn.result()).messages;
  } catch (thrown) {
    if (thrown instanceof TurnError) return thrown.result.messages;
    throw thrown;
  }
}
