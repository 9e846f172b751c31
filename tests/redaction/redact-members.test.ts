import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isSecretName, redactMembers, withoutSecrets } from 'millrace/internals';
import { prose, timesAsLong } from '../processor-time.ts';

const secretNames = [
  ...['apiKey', 'x-api-key', 'access_token', 'Authorization', 'dbPassword', 'privateKey', 'credentials'],
  ...['apiKeys', 'db-passwords', 'pwd', 'cookies', 'set-cookie', 'secretAccessKey', 'refreshTokens', 'sharedSecrets'],
];
const shout = (text: string) => text.toUpperCase();

describe('redactMembers', () => {
  it('leaves what names something, gives every other text to the redaction, and searches what is the user’s own', () => {
    const record = {
      type: 'llm.done',
      toolCalls: [{ id: 'c1', function: { name: 'find', arguments: '{"type":"x","apiKey":"k"}' } }],
      author: { name: 'ada' },
      metadata: { type: 'note', password: 'p' },
      text: 'said',
    };
    expect(redactMembers(record, shout)).toEqual({
      type: 'llm.done',
      toolCalls: [{ id: 'c1', function: { name: 'find', arguments: '{"type":"X","apiKey":"[redacted]"}' } }],
      author: { name: 'ADA' },
      metadata: { type: 'NOTE', password: '[redacted]' },
      text: 'SAID',
    });
  });
});

describe('withoutSecrets', () => {
  it('marks texts under the names of secrets, but not where there is nothing to hide', () => {
    const value = { token: '', apiKey: 'k', count: 3, list: [{ secret: 's' }, null] };
    const clean = { token: '', apiKey: '[redacted]', count: 3, list: [{ secret: '[redacted]' }, null] };
    expect(withoutSecrets(value, (text) => text)).toEqual(clean);
  });

  it('marks values that are no strings, in arrays and objects, too', () => {
    const value = {
      headers: {
        'x-api-key': ['k1', 'k2'],
        'set-cookie': ['sid=s; HttpOnly'],
        cookies: { sid: 's', seen: true },
        authorization: { value: 'a', of: null },
      },
      apiKeys: ['k'],
      password: 123_456_789,
      pwd: 'p',
      'db-passwords': { main: [{ hash: 'h' }] },
      text: '{"tokens":7,"access_tokens":["t"]}',
    };
    const mark = '[redacted]';
    expect(withoutSecrets(value, (text) => text)).toEqual({
      headers: {
        'x-api-key': [mark, mark],
        'set-cookie': [mark],
        cookies: { sid: mark, seen: true },
        authorization: { value: mark, of: null },
      },
      apiKeys: [mark],
      password: mark,
      pwd: mark,
      'db-passwords': { main: [{ hash: mark }] },
      text: '{"tokens":7,"access_tokens":["[redacted]"]}',
    });
  });

  it('keeps what a JSON Schema says of a secret, without its values', () => {
    const schema = (values: object, items: object) => ({
      type: 'object',
      properties: {
        password: { type: 'string', title: 'Your password', minLength: 8, ...values },
        apiKeys: { type: 'array', items: { type: 'string', ...items } },
        name: { type: 'string', default: 'ada' },
      },
    });
    const clean = withoutSecrets(schema({ default: 'p' }, { enum: ['k'] }), (text) => text);
    expect(clean).toEqual(schema({ default: '[redacted]' }, { enum: ['[redacted]'] }));
  });

  it('lets no string and no number under the name of a secret through', () => {
    const secret = 'hunter2';
    const names = fc.constantFrom(...secretNames);
    const leaf = fc.constantFrom(secret, `a ${secret}`, 7_777_777);
    const { held } = fc.letrec<{ held: unknown }>((tie) => ({
      held: fc.oneof(
        { depthSize: 'small' },
        leaf,
        fc.array(tie('held'), { maxLength: 3 }),
        fc.dictionary(fc.oneof(fc.string(), names), tie('held'), { maxKeys: 3 }),
      ),
    }));
    const around = fc.constantFrom(
      (value: object): unknown => value,
      (value: object) => [{ data: value }],
      (value: object) => ({ text: JSON.stringify(value) }),
    );
    fc.assert(
      fc.property(names, held, around, (name, value, wrap) => {
        const clean = JSON.stringify(withoutSecrets(wrap({ [name]: value, maxTokens: 5 }), (text) => text));
        expect(clean).not.toMatch(/hunter2|7777777/);
        expect(clean).toMatch(/maxTokens\W+5/);
      }),
    );
  });

  it.each(secretNames)('knows %s as the name of a secret', (name) => expect(isSecretName(name)).toBe(true));

  it.each([
    ...['maxTokens', 'tokens', 'inputTokens', 'total_tokens', 'prompt-tokens', 'costPerToken', 'price_per_token'],
    ...['keyboard', 'secretary', 'monkey', 'keys', 'cpwd'],
  ])('does not take %s for one', (name) => expect(isSecretName(name)).toBe(false));
});

describe('secrets in text', () => {
  const secret = 'hunter2Zq9vK2mXw7';
  const redacted = (text: string) => String(withoutSecrets(text, (rest) => rest));

  it.each([
    ...[
      'DB_PASSWORD=…',
      'export POSTGRES_PASSWORD=a,…',
      'AWS_SECRET_ACCESS_KEY=…',
      'NPM_TOKEN="…"',
      'DB_PASS=…',
      'PGPASSWORD=… psql',
    ],
    ...[
      'MILLRACE_CLIENT_KEYS=alice=…',
      'X-Api-Key: …',
      'Authorization: Token …',
      'Cookie: session=…; b=…',
      'Set-Cookie: …',
    ],
    ...[
      '--password …',
      '--api-key=…',
      'curl -u alice:… x',
      "curl -H 'Authorization: Token …' https://x",
      'smtpPassword: …',
    ],
    ...[
      'Proxy-Authorization: Digest username="…", response="…"',
      'spring.datasource.password=…',
      '"cookie": ["…", "b"], "x": 1',
    ],
    ...[
      'client_secret: "…"',
      '{"client_secret":"…","pad":"xx',
      '{\\"client_secret\\":\\"…\\",\\"pad',
      '{"password":"a\\"…","x":1',
    ],
    ...[
      "{'password': '…'}",
      'a\\ntoken=…',
      "secret = '…",
      'AccountKey=…;End=1',
      '<password>…</password>',
      '//host/:_authToken=…',
    ],
    ...[
      'postgres://u:p@…/x@host/db',
      'mongodb+srv://u:…@h/?x',
      'redis://:…@h',
      'u:…@tcp(h)/db',
      'host=h password=… port=1',
    ],
    ...['-----BEGIN RSA PRIVATE KEY-----\n…\n-----END RSA PRIVATE KEY-----', 'x npm_…', 'machine h login u password …'],
    ...[
      '- name: DB_PASSWORD\n  value: …',
      '<input name="password" value="…">',
      '<add key="apiKey" value="…"/>',
      'ENV API_KEY …',
    ],
    ...[
      '<token id="1">…</token>',
      '<password><![CDATA[…]]></password>',
      'password: |\n  …\n  …\nuser: ada',
      '| API key | `…` |',
    ],
    ...[
      'const apiKey: string = "…"',
      'api_key: str | None = "…"',
      '- **API key:** `…`',
      '<b>password:</b> …',
      'password → …',
    ],
    ...[
      'The password is …',
      '"Authorization","…"',
      'password%3D…%26x',
      '%22token%22%3A%22…%22',
      '&quot;token&quot;:&quot;…&quot;',
    ],
    ...[
      '\\u0022password\\u0022:\\u0022…\\u0022',
      '\u001b[31mpassword\u001b[0m=…',
      '"password"\u001b[39m: \u001b[32m"…"',
    ],
    ...[
      'https://h/p?sv=1&sig=…&se=2',
      'https://h/p?X-Goog-Signature=…',
      'https://h/cb?code=…&state=1',
      'password=a;…',
      "P_TOKEN='it'\\''s…'",
    ],
    ...[
      'curl -ualice:… https://x',
      'mysql -u root -p… db',
      'redis-cli -h x -a … ping',
      'docker login -u me -p … host',
      "sshpass -p '…' ssh x",
    ],
    ...[
      'requirepass …',
      'h:5432:db:me:…',
      '//host/:_auth=…',
      '"auth": "…"',
      'PRIVATE_KEY_BASE64=…',
      'PASS=…',
      "auth: { user: 'a', pass: '…' }",
    ],
    ...[
      'https://hooks.slack.com/services/T0/B0/…',
      'x shpat_…',
      'x hvs.…',
      'x GOCSPX-…',
      'CONNECTION_STRING=…',
      '"password_hash": "…"',
    ],
  ])('R-14 redacts %j, also in the middle of a text', (form) => {
    const line = form.replaceAll('…', secret);
    for (const text of [line, `the settings are\n${line}\nend`]) {
      expect(redacted(text)).toContain('[redacted]');
      expect(redacted(text)).not.toContain(secret);
    }
  });

  it.each([
    ...[
      'the password: must be long',
      'Unexpected token "<", "<!DOCTYPE"',
      'maxTokens=5000000000',
      'http://host:80/path@x',
    ],
    ...[
      "kind: isAuth ? 'auth' : 'input'",
      'pass: 12, fail: 3',
      'The token is expired',
      'https://h/p?code=404&key=name',
      'docker run -p 8080:80 x',
    ],
    ...[
      'name: color\nvalue: red',
      '{"name":"size","value":"big"}',
      'redis-cli -p 6379 ping',
      '| password | required |',
      'a session key',
    ],
    ...['see https://docs.example/a?b=c', 'at 12:30: the secretary wrote a key'],
  ])('R-14 keeps %j', (text) => expect(redacted(text)).toBe(text));

  it('R-14 redacts values whose name is a value, too', () => {
    const value = {
      env: [
        { name: 'DB_PASSWORD', value: secret },
        { Name: 'X', Value: 'x' },
      ],
      headers: [
        ['Authorization', secret],
        ['accept', 'x'],
      ],
      rawHeaders: ['Cookie', secret, 'Host', 'x'],
      auths: { 'registry.example': { auth: secret } },
      mail: { auth: { user: 'ada', pass: secret } },
    };
    const clean = JSON.stringify(withoutSecrets([value, JSON.stringify(value)], (text) => text));
    expect(clean).not.toContain(secret);
    expect(clean.match(/ada/g)).toHaveLength(2);
    expect(withoutSecrets({ name: 'DB_HOST', value: 'h', pass: 'yes', headers: [['a', 'b']] }, (text) => text)).toEqual(
      {
        name: 'DB_HOST',
        value: 'h',
        pass: 'yes',
        headers: [['a', 'b']],
      },
    );
  });

  it('R-14 searches JSON that nests too deep as a text', () => {
    const deep = `${'{"a":'.repeat(20_000)}{"password":"${secret}"}${'}'.repeat(20_000)}`;
    expect(redacted(deep)).not.toContain(secret);
  });

  it('R-14 redacts under every name, in each form, what it redacts in a member of that name', () => {
    const names = fc.constantFrom(...secretNames, 'X_TOKEN', 'client-secret', 'GITHUB_TOKEN', 'passphrase');
    const forms: readonly ((name: string) => string)[] = [
      (name) => `${name}=${secret}`,
      (name) => `${name}: ${secret}`,
      (name) => `{"a":1,"${name}":"${secret}","b`,
      (name) => JSON.stringify(`{"${name}":"${secret}","b`),
      (name) => `run --${name} ${secret}`,
      (name) => `f({ ${name}: '${secret}' })`,
    ];
    fc.assert(
      fc.property(names, fc.constantFrom(...forms), fc.constantFrom('', 'a b\n', '{"x":"y",'), (name, form, before) => {
        expect(redacted(before + form(name))).not.toContain(secret);
      }),
    );
  });

  it.each([
    ...[
      'a',
      'password=',
      'password="',
      'password: ',
      '-',
      '--a ',
      'a://a:',
      '<a',
      'login a ',
      '-----BEGIN PRIVATE KEY-----',
      'eyJ',
    ],
    ...[
      'name=a ',
      '| a ',
      'a is ',
      'a **',
      'ENV a ',
      '"a",',
      'mysql ',
      'docker login ',
      '<secret ',
      'a:1:',
      'password: |\n ',
      "password='a'\\''",
    ],
    ...['a.', 'password="\\', 'token=\\"a', 'A_', '\\', ' -u a', 'a:b@', 'password\n', ' ', 'bearer '],
  ])('R-14 reads 200,000 characters of %j in linear time', async (piece) => {
    const [text, ordinary] = [piece.repeat(200_000 / piece.length), prose(200_000)];
    const compared = { run: () => redacted(text), base: () => redacted(ordinary), most: 100 };
    expect(await timesAsLong(compared)).toBeLessThan(100);
  });
});
