import {
  type AgentEvent,
  type ArtifactUpdateEvent,
  partsText,
  type SubAgentStep,
  systemClock,
} from '../core/contracts/index.ts';
import type { Question } from '../core/journal/index.ts';
import { Timer } from '../core/streams/index.ts';
import { columnsOf, cut, LiveRegion, WordWrap } from './columns.ts';
import { localTime, oneLine, terminalJson, withoutControls } from './format.ts';
import {
  finishedRow,
  foldProgress,
  idle,
  isCutOff,
  type Progress,
  plainStart,
  progressLines,
  startedRow,
  type ToolRow,
  takeFinished,
  toolRowLine,
  toolRowLines,
  withCutOff,
} from './progress.ts';
import { questionLines } from './questions.ts';
import type { Output, Terminal } from './terminal.ts';

/** Shows the events of one turn. */
export interface Printer {
  /** A promise where the reader is slow: the next event waits for it. */
  print(event: AgentEvent): void | Promise<void>;
  /** Tells that the turn is being cancelled and has not stopped yet. */
  cancelling(): void;
  /** Leaves the screen clean: nothing is redrawn any more, and the cursor stands at the start of a line. */
  close(): void;
}

/** Writes each event as one line of JSON. */
export class JsonPrinter implements Printer {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  print(event: AgentEvent): void | Promise<void> {
    return this.#output.write(`${terminalJson(eventLine(event))}\n`);
  }

  cancelling(): void {}

  close(): void {}
}

/**
 * The event in one line. What a tool reports of its progress may be anything; where JSON cannot hold it, its text
 * stands there.
 */
export function eventLine(event: AgentEvent): string {
  try {
    return JSON.stringify(event);
  } catch (error) {
    if (event.kind === 'internal:sub-agent')
      return JSON.stringify({ ...event, event: JSON.parse(eventLine(event.event)) });
    if (event.kind !== 'internal:tool-progress') throw error;
    return JSON.stringify({ ...event, update: String(event.update) });
  }
}

const frameMs = 80;
/** Columns below which nothing is redrawn. */
const narrowest = 40;
/** Lines that are not redrawn may be longer than a terminal is wide, but not endless. */
const plainColumns = 160;

/**
 * Streams the model's text to stdout and the tools' progress to stderr: as lines that are redrawn in place on a terminal,
 * as lines for start and finish elsewhere. Where both go to one screen, text and tools are kept apart by an empty line.
 */
export class TextPrinter implements Printer {
  readonly #terminal: Terminal;
  readonly #live: LiveRegion;
  readonly #now: () => number;
  readonly #wrap = new WordWrap();
  #progress: Progress = idle;
  readonly #timer = new Timer(systemClock);
  #artifactId: string | undefined;
  #atLineStart = true;
  /** The calls that wait for an answer. */
  #open: ReadonlySet<string> = new Set();
  #last: 'text' | 'tools' | 'heading' | undefined;

  constructor(terminal: Terminal, now: () => number = Date.now) {
    this.#terminal = terminal;
    this.#now = now;
    this.#live = new LiveRegion((text) => void terminal.stderr.writeRaw(text));
  }

  print(event: AgentEvent): void | Promise<void> {
    if (event.kind === 'artifact-update') return this.#text(event);
    if (event.kind === 'internal:llm-attempt-discarded') this.#discarded(event.reason);
    const { progress, finished } = takeFinished(foldProgress(this.#progress, event, this.#now()));
    this.#progress = progress;
    if (!this.#terminal.live) this.#plain(event);
    // The deltas of sub-agents are redrawn with the next frame.
    else if (event.kind !== 'internal:sub-agent' || event.event.cursor !== undefined) this.#redraw(finished);
    if (event.kind === 'status-update' && !event.final) this.#asked(event.questions ?? []);
    if (event.kind === 'internal:resumed') this.#resumed(event.timestamp);
  }

  /** Begins a section with its own line. */
  heading(line: string): void {
    this.#draw([]);
    this.#endLine();
    void this.#terminal.stdout.write(`\n${line}\n`);
    this.#last = 'heading';
  }

  /** Shows lines beside the tools' progress. */
  lines(lines: readonly string[]): void {
    for (const line of lines) this.#line(line);
  }

  cancelling(): void {
    this.#line(this.#terminal.errorStyle.yellow('  stopping; Ctrl-C again does not wait'));
  }

  /** Shows what ran as cut off: its process is no more. */
  cutOff(): void {
    const { progress, finished } = takeFinished(withCutOff(this.#progress));
    this.#progress = progress;
    const { errorStyle: style, stderr } = this.#terminal;
    const columns = stderr.isTerminal ? stderr.columns : plainColumns;
    if (this.#terminal.live) this.#draw(finished);
    else
      for (const row of finished.filter(isCutOff)) this.#line(toolRowLine(row, { style, columns, now: this.#now() }));
  }

  close(): void {
    this.#progress = idle;
    this.#draw([]);
    this.#endLine();
  }

  #text(event: ArtifactUpdateEvent): void | Promise<void> {
    const text = partsText(event.artifact.parts);
    if (text === '') return;
    this.#progress = foldProgress(this.#progress, event, this.#now());
    this.#draw([]);
    this.#separateText(event);
    this.#last = 'text';
    this.#atLineStart = text.endsWith('\n');
    return this.#terminal.stdout.writeRaw(this.#shown(text));
  }

  #shown(text: string): string {
    const { stdout, env } = this.#terminal;
    if (!stdout.isTerminal) return text;
    const harmless = withoutControls(text);
    return env['TERM'] === 'dumb' ? harmless : this.#wrap.add(harmless, stdout.columns);
  }

  /** Texts of different iterations, and text after tools on the same screen, begin after an empty line. */
  #separateText(event: ArtifactUpdateEvent): void {
    const another = this.#artifactId !== undefined && (event.artifact.artifactId !== this.#artifactId || !event.append);
    const afterTools = this.#terminal.shared && this.#last === 'tools';
    this.#artifactId = event.artifact.artifactId;
    if (this.#last === 'heading' || (!another && !afterTools)) return;
    this.#endLine();
    void this.#terminal.stdout.write('\n');
  }

  #discarded(reason: string | undefined): void {
    this.#line(`  the model starts again${reason === undefined ? '' : `: ${reason}`}; the text above is discarded`);
  }

  /** What was shown before this line, an earlier process did. */
  #resumed(timestamp: string): void {
    const { dim, glyphs } = this.#terminal.errorStyle;
    this.#line(dim(`  ${glyphs.dot} resumed ${localTime(timestamp)}`));
  }

  /** Shows questions while other calls still run; other questions are shown at the end. */
  #asked(questions: readonly Question[]): void {
    const { errorStyle: style, stderr } = this.#terminal;
    const columns = stderr.isTerminal ? stderr.columns : plainColumns;
    const isNew = ({ id }: Question) => !this.#open.has(id);
    const stillRuns = this.#progress.tools.some(({ outcome }) => outcome === undefined);
    for (const question of stillRuns ? questions.filter(isNew) : []) {
      for (const line of questionLines(question, { style, columns })) this.#line(line);
    }
    this.#open = new Set(questions.map(({ id }) => id));
  }

  #redraw(finished: readonly ToolRow[]): void {
    if (this.#progress.tools.length > 0 || finished.length > 0) this.#beforeTools();
    this.#draw(finished);
  }

  #plain(event: AgentEvent, path: readonly SubAgentStep[] = []): void {
    if (event.kind === 'internal:sub-agent') return this.#plain(event.event, event.path);
    const style = this.#terminal.errorStyle;
    const now = this.#now();
    const agents = path.map(({ agentId }) => oneLine(agentId)).join('/');
    const prefix = `${'  '.repeat(path.length)}${agents && style.dim(`  ${agents}`)}`;
    const columns = plainColumns - columnsOf(prefix);
    if (event.kind === 'internal:tool-start') this.#line(prefix + plainStart(startedRow(event, now), style));
    if (event.kind === 'internal:tool-complete')
      this.#line(prefix + toolRowLine(finishedRow(event, now), { style, columns, now }));
    if (event.kind === 'internal:llm-response' && agents !== '' && event.text !== '')
      this.#line(`${prefix}  ${cut(oneLine(event.text), columns - 3, style.glyphs.ellipsis)}`);
  }

  #line(line: string): void {
    this.#beforeTools();
    this.#live.clear();
    void this.#terminal.stderr.write(`${line}\n`);
  }

  #beforeTools(): void {
    if (this.#terminal.shared && this.#last === 'text') {
      this.#endLine();
      void this.#terminal.stdout.write('\n');
    }
    this.#last = 'tools';
  }

  #endLine(): void {
    if (this.#atLineStart) return;
    this.#atLineStart = true;
    this.#wrap.reset();
    void this.#terminal.stdout.write('\n');
  }

  #draw(finished: readonly ToolRow[]): void {
    if (!this.#terminal.live) return;
    const { errorStyle: style, stderr } = this.#terminal;
    const options = { style, columns: stderr.columns, rows: stderr.rows, now: this.#now() };
    const lines = this.#canDraw() ? progressLines(this.#progress, options) : [];
    this.#live.draw(
      lines,
      finished.flatMap((row) => toolRowLines(row, options)),
    );
    this.#schedule(lines.length > 0);
  }

  /** A line of text that is not finished must not be overwritten, and lines that wrap cannot be redrawn. */
  #canDraw(): boolean {
    return this.#terminal.stderr.columns >= narrowest && (this.#atLineStart || !this.#terminal.shared);
  }

  #schedule(moving: boolean): void {
    if (moving) this.#timer.set(frameMs, () => this.#draw([]));
    else this.#timer.stop();
  }
}
