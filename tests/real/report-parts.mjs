/** Says behind the last test which real parts it ran against, in which versions, and which ones it had to do without. */
export default class ReportParts {
  onRunComplete(_contexts, { testResults }) {
    const tests = testResults.flatMap((file) => file.testResults);
    const parts = Object.entries(JSON.parse(process.env.MILLRACE_REAL_PARTS ?? '{}'));
    const lines = parts.map(([name, part]) => {
      const own = tests.filter((test) => test.fullName.includes(`[${name}]`));
      const count = (status) => own.filter((test) => test.status === status).length;
      if (part.missing !== undefined) return [name, 'SKIPPED', `${count('pending')} tests: ${part.missing}`];
      if (own.length === 0) return [name, part.version, 'in no test of this run'];
      return [name, part.version, `${count('passed')} passed, ${count('failed')} failed`];
    });
    const widths = [0, 1].map((column) => Math.max(...lines.map((line) => String(line[column]).length)));
    process.stderr.write('\nReal parts:\n');
    for (const [name, version, outcome] of lines) {
      process.stderr.write(`  ${name.padEnd(widths[0])}  ${String(version).padEnd(widths[1])}  ${outcome}\n`);
    }
  }
}
