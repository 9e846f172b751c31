import type { Command } from 'commander';
import {
  type AgentEvent,
  AgentLoopError,
  type ErrorCode,
  isSuspended,
  type Message,
  partsText,
} from '../../core/contracts/index.ts';
import type { Question } from '../../core/journal/index.ts';
import type { FinishedSpan } from '../../observability/finished-spans.ts';
import type { Turn } from '../../tasks/turn.ts';
import { pad, wrapLines } from '../columns.ts';
import { type CommandHost, type Interruption, newId, withInterruption } from '../command-host.ts';
import { type Ending, emptyTally, endingOf, sentenceOf, showTally, type Tally } from '../ending.ts';
import { count, oneLine } from '../format.ts';
import { type LineSource, PipedLines, TypedLines } from '../line-source.ts';
import { modelSettings } from '../model.ts';
import { chatCommand, type TaskPlace, turnSettings, withKeptFlags } from '../next-commands.ts';
import { explainLost, followTurn } from '../play-turn.ts';
import { type Printer, TextPrinter } from '../printer.ts';
import { askQuestions, showWaiting } from '../questions.ts';
import { checkAgentFlag } from '../served-agent.ts';
import { lengthOf, openSession, openTurnOf, type Session } from '../session.ts';
import { turnStore } from '../store.ts';
import { complain, note, type Terminal } from '../terminal.ts';
import { showWaterfall, wantsExport } from '../trace-view.ts';
import { addAgentFlag, addContextFlag, addNewTurnFlags, type NewTurnFlags } from '../turn-flags.ts';

const interruptedByKey = 130;

/** Adds `millrace chat`: many turns in the terminal. */
export function addChatCommand(program: Command, host: CommandHost): void {
  addAgentFlag(addContextFlag(addNewTurnFlags(program.command('chat'))))
    .summary('chat: many turns, one conversation')
    .description(
      'Chat in the terminal, and answer questions of a turn. Ctrl-C stops an answer; at the prompt it exits. Also reads lines from a pipe.',
    )
    .action((flags: ChatFlags) => chat(flags, host));
}

async function chat(flags: ChatFlags, host: CommandHost): Promise<void> {
  checkAgentFlag(flags);
  const { terminal } = host;
  const model = modelSettings(flags, terminal.env);
  const store = turnStore(flags, terminal.env);
  await withInterruption(host, async (interruption) => {
    const start = { model, store, flags, terminal, interruption, standInDelayMs: 25 };
    const session = await openSession({ ...start, traced: true }).catch((thrown: unknown) => {
      const isMissing = AgentLoopError.isInstance(thrown) && thrown.code === 'MISSING_PACKAGE';
      if (!isMissing || flags.trace || wantsExport(flags, terminal.env)) throw thrown;
      return openSession({ ...start, traced: false });
    });
    const lines = host.stdin.isTTY ? typed(interruption, host) : piped(interruption, host);
    try {
      const talk = new Chat({ session, host, flags, lines, interruption });
      if (host.stdin.isTTY) await greet(session, terminal);
      host.exitCode = await (host.stdin.isTTY ? talkTyped : talkPiped)({ talk, lines, interruption, host });
      talk.leave();
    } finally {
      lines.close();
      await session.close();
    }
  });
}

function typed(interruption: Interruption, host: CommandHost): LineSource {
  const { style, stdout } = host.terminal;
  return new TypedLines({
    input: host.stdin,
    output: promptOf(host),
    prompt: `${style.cyan(style.glyphs.prompt)} `,
    signal: () => AbortSignal.any([interruption.signal, stdout.closed]),
  });
}

function promptOf({ terminal, stdout, stderr }: CommandHost): CommandHost['stdout'] {
  return terminal.stdout.isTerminal ? stdout : stderr;
}

function piped(interruption: Interruption, host: CommandHost): LineSource {
  return new PipedLines({ input: host.stdin, signal: () => interruption.signal });
}

interface Talking {
  readonly talk: Chat;
  readonly lines: LineSource;
  readonly interruption: Interruption;
  readonly host: CommandHost;
}

/** Ctrl-C stops the turn that runs, and the talk continues; SIGTERM ends both. */
async function talkTyped({ talk, lines, interruption, host }: Talking): Promise<number> {
  for (let said = await talk.open(); ; ) {
    if (!said.continues) return interruption.exitCode ?? said.exitCode;
    if (interruption.exitCode === interruptedByKey) interruption.reset();
    const entry = await lines.next();
    if (entry.kind !== 'text') break;
    said = await take(entry.text.trim(), talk);
    if (!said.continues) return interruption.exitCode ?? said.exitCode;
    promptOf(host).write('\n');
  }
  return interruption.exitCode ?? 0;
}

/** An interruption ends the talk; a turn that failed does not, but shows in the exit code. */
async function talkPiped({ talk, lines, interruption }: Talking): Promise<number> {
  let said = await talk.open();
  let worst = said.exitCode;
  while (said.continues) {
    const entry = await lines.next();
    if (entry.kind !== 'text') break;
    said = await take(entry.text.trim(), talk);
    worst = Math.max(worst, said.exitCode);
  }
  return interruption.exitCode ?? worst;
}

async function take(entry: string, talk: Chat): Promise<Said> {
  if (entry === '') return { continues: true, exitCode: 0 };
  if (/^\/\w+$/.test(entry)) return { continues: await talk.command(entry), exitCode: 0 };
  return talk.say(entry);
}

async function greet(session: Session, { stderr, errorStyle }: Terminal): Promise<void> {
  const { bold, dim, glyphs } = errorStyle;
  const tools = count((await session.tools()).length, 'tool');
  const about = `${session.modelLabel} ${glyphs.dot} ${tools} ${glyphs.dot} /help`;
  void stderr.write(`${bold('millrace chat')} ${dim(`${glyphs.dot} ${about}`)}\n\n`);
}

const commands: readonly (readonly [name: string, purpose: string])[] = [
  ['/help', 'this list'],
  ['/tools', 'the tools that the model may call'],
  ['/trace', 'the spans of the last turn'],
  ['/quit', 'leave; Ctrl-D does too, and Ctrl-C at the prompt'],
];

/** As that of a turn that waits: somebody left the chat at a question. */
const waits = 3;

interface ChatFlags extends NewTurnFlags {
  readonly contextId?: string;
}

interface ChatOptions {
  readonly session: Session;
  readonly host: CommandHost;
  /** `trace` shows the spans of each turn; `contextId` names the conversation. */
  readonly flags: ChatFlags;
  readonly lines: LineSource;
  readonly interruption: Interruption;
}

/** What became of an entry, and whether the chat continues. */
interface Said {
  readonly exitCode: Ending['exitCode'];
  readonly continues: boolean;
}

/** A conversation in the terminal: the turns of one context, each with what was said before. */
class Chat {
  readonly #options: ChatOptions;
  readonly #contextId: string;
  /** What the next turn begins with, besides what the store has of the conversation. */
  #interrupted: readonly Message[] = [];
  #spans: readonly FinishedSpan[] = [];
  #hasTurns = false;

  constructor(options: ChatOptions) {
    this.#options = options;
    this.#contextId = options.flags.contextId ?? newId();
  }

  /** Follows a command, which is a word after `/`; false where it was the one to leave. */
  async command(name: string): Promise<boolean> {
    const { session, host } = this.#options;
    if (name === '/quit' || name === '/exit') return false;
    if (name === '/help') this.#list(commands);
    else if (name === '/tools') this.#list((await session.tools()).map((tool) => [tool.name, tool.description]));
    else if (name === '/trace') await this.#showSpans();
    else complain(host.terminal, `${name} is not a command; /help lists them`);
    return true;
  }

  /** Continues the conversation that the command line names: says how long it is, and ends the turn that was left open in it. */
  async open(): Promise<Said> {
    const { session, host, flags } = this.#options;
    if (flags.contextId === undefined) return { exitCode: 0, continues: true };
    const { store } = session.store;
    const length = await lengthOf(store, this.#contextId);
    if (length > 0) note(host.terminal, `continues the conversation ${this.#contextId}: ${count(length, 'message')}`);
    return this.#settle();
  }

  /** Runs a turn, with all that was said before; asks what it asks. */
  async say(content: string): Promise<Said> {
    const { session, flags } = this.#options;
    const settled = await this.#settle();
    if (!settled.continues) return settled;
    const turn = session.agent.startTurn([...this.#interrupted, { role: 'user', content }], {
      signal: this.#signal,
      contextId: this.#contextId,
      ...turnSettings(flags),
    });
    this.#interrupted = [];
    return this.#play(turn);
  }

  /** Says how to continue, where there is something to continue. */
  leave(): void {
    const { session, host, flags } = this.#options;
    if (!this.#hasTurns || !session.store.durable) return;
    const { stderr, errorStyle: style } = host.terminal;
    const command = chatCommand(this.#contextId, { store: session.store.settings, flags });
    // Not wrapped, so that it can be copied.
    void stderr.write(`${style.dim('  continue the conversation with:')}\n  ${command}\n`);
  }

  /** Cancels a turn: a new one after each interruption that was dealt with. */
  get #signal(): AbortSignal {
    const { interruption, host } = this.#options;
    return AbortSignal.any([interruption.signal, host.terminal.stdout.closed]);
  }

  /** Ends the turn of this conversation that another process left open, or an earlier run of this one. */
  async #settle(): Promise<Said> {
    const { session, host } = this.#options;
    const open = await openTurnOf(session.store.store, this.#contextId);
    if (open === undefined) return { exitCode: 0, continues: true };
    if (open.status === 'running') {
      note(host.terminal, `another process runs turn ${open.taskId} of this conversation; the next one waits for it`);
      return { exitCode: 0, continues: true };
    }
    note(host.terminal, `turn ${open.taskId} of this conversation ${open.status === 'dead' ? 'was cut off' : 'waits'}`);
    return this.#play(session.agent.resume(open.taskId, { signal: this.#signal, onBusy: 'wait' }));
  }

  /** Shows a turn until it has ended, and asks what it asks in between. */
  async #play(started: Turn): Promise<Said> {
    const { session, host, flags } = this.#options;
    this.#hasTurns = true;
    this.#spans = [];
    const printer = new TextPrinter(host.terminal);
    let shown: Shown = { tally: emptyTally, openText: '', cursor: undefined };
    for (let turn = started; ; ) {
      const next = await this.#show(turn, { printer, before: shown });
      if (next === 'lost') return { exitCode: host.exitCode, continues: false };
      shown = next;
      const { final } = shown.tally;
      const questions = final && isSuspended(final.status.state) ? (final.questions ?? []) : [];
      const asked = questions.length === 0 ? undefined : await this.#ask(questions, { taskId: turn.taskId, printer });
      if (asked === 'leave') return this.#left(questions, turn.taskId, shown.tally);
      if (asked === undefined || asked === 'cancel') {
        this.#interrupted = interruptedMessage(shown.openText);
        const said = this.#conclude(shown.tally, asked === 'cancel');
        if (flags.trace) await this.#showSpans();
        return said;
      }
      const { cursor } = shown;
      const rest = cursor === undefined ? {} : { from: cursor };
      turn = session.agent.resume(turn.taskId, { signal: this.#signal, onBusy: 'wait', ...rest });
    }
  }

  /** Shows the events of a turn until it has ended or waits. */
  async #show(
    turn: Turn,
    { printer, before }: { readonly printer: TextPrinter; readonly before: Shown },
  ): Promise<Shown | 'lost'> {
    const { session, host, flags, interruption } = this.#options;
    const isAnswered = before.cursor !== undefined;
    let { openText, cursor } = before;
    const listening: Printer = {
      print(event) {
        openText = foldOpenText(openText, event);
        cursor = event.cursor ?? cursor;
        // Nothing has been away for the one who answered.
        if (event.kind === 'internal:resumed' && isAnswered) return;
        return printer.print(event);
      },
      cancelling: () => printer.cancelling(),
      close: () => printer.close(),
    };
    const place = { taskId: turn.taskId, store: session.store.settings, flags };
    try {
      const tally = await followTurn(turn, listening, this.#signal, before.tally);
      return { tally, openText, cursor };
    } catch (thrown) {
      await explainLost(thrown, { place, session, host, interruption, answers: {} });
      return 'lost';
    } finally {
      this.#spans = [...this.#spans, ...(session.trace?.takeSpans() ?? [])];
    }
  }

  /** Asks, and records the answers. Reports a question that another process has answered meanwhile. */
  async #ask(
    questions: readonly Question[],
    { taskId, printer }: { readonly taskId: string; readonly printer: TextPrinter },
  ): Promise<'answered' | 'cancel' | 'leave'> {
    const { session, host, lines, interruption } = this.#options;
    const { store } = session.store;
    const answers = await askQuestions(questions, {
      lines,
      terminal: host.terminal,
      show: (block) => printer.lines(block),
    });
    const isCancelled = answers === 'cancel' || (answers === 'leave' && interruption.byKey.aborted);
    if (isCancelled) await session.agent.cancel(taskId, 'interrupted');
    if (isCancelled) return 'cancel';
    if (answers === 'leave') return 'leave';
    const { AgentLoop } = await import('../../tasks/agent-loop.ts');
    await AgentLoop.answer(taskId, { store, answers }).catch((thrown: unknown) => {
      if (!AgentLoopError.isInstance(thrown) || !answeredElsewhere.has(thrown.code)) throw thrown;
      complain(host.terminal, sentenceOf(thrown));
    });
    return 'answered';
  }

  /** The turn waits on, where its journal outlives this process. */
  #left(questions: readonly Question[], taskId: string, { metadata = {} }: Tally): Said {
    const { session, host, flags, interruption } = this.#options;
    const place: TaskPlace = { taskId, store: session.store.settings, flags };
    if (session.store.durable) showWaiting(questions, withKeptFlags(place, metadata), host.terminal);
    return { exitCode: interruption.exitCode ?? waits, continues: false };
  }

  #conclude(tally: Tally, isCancelled: boolean): Said {
    const { host, interruption } = this.#options;
    const { terminal } = host;
    const { closed } = terminal.stdout;
    const continues = !closed.aborted;
    if (isCancelled) {
      complain(terminal, 'cancelled');
      return { exitCode: interruption.exitCode ?? 1, continues };
    }
    const ending = endingOf(tally.final, { interrupted: interruption.exitCode, readerLeft: closed.aborted });
    if (ending.sentence !== undefined) complain(terminal, ending.sentence);
    else showTally(tally, terminal);
    return { exitCode: ending.exitCode, continues };
  }

  async #showSpans(): Promise<void> {
    const { session, host } = this.#options;
    const { terminal } = host;
    if (session.trace === undefined)
      note(terminal, 'spans need the OpenTelemetry SDK; millrace chat --trace names what to install');
    else if (this.#spans.length > 0) await showWaterfall(this.#spans, terminal);
    else note(terminal, 'there is no turn to show yet');
  }

  #list(rows: readonly (readonly [string, string])[]): void {
    const { stderr, errorStyle } = this.#options.host.terminal;
    const width = rows.reduce((most, [name]) => Math.max(most, name.length), 0);
    const lines = rows.flatMap(([name, text]) =>
      wrapLines(oneLine(text), Math.max(20, stderr.columns - width - 5)).map((line, index) => {
        return `  ${errorStyle.bold(pad(index === 0 ? name : '', width))}  ${line}\n`;
      }),
    );
    void stderr.write(lines.join(''));
  }
}

/** What a turn has shown so far, in however many parts. */
interface Shown {
  readonly tally: Tally;
  /** Of a response that is not complete. */
  readonly openText: string;
  /** Of the last event. */
  readonly cursor: string | undefined;
}

/** How an answer is refused that came too late. */
const answeredElsewhere: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['CONFLICT', 'INVALID_INPUT', 'TERMINAL']);

/** The text of a response that is not complete; empty where none is open. */
export function foldOpenText(open: string, event: AgentEvent): string {
  if (event.kind !== 'artifact-update') return open;
  if (event.lastChunk) return '';
  const text = partsText(event.artifact.parts);
  return event.append ? open + text : text;
}

/** The text of a response that broke off, as the next turn begins with it: what was shown stays, so that the user can refer to it. */
export function interruptedMessage(openText: string): readonly Message[] {
  return openText === '' ? [] : [{ role: 'assistant', content: `${openText} [interrupted]` }];
}
