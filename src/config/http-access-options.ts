import { isIP } from 'node:net';
import { choice, httpGroup as group, integer, list, option, path, text, toggle } from './option.ts';

/** Paths that the bridge answers itself. */
const probePaths = ['/healthz', '/readyz', '/metrics', '/status'];

function isHost(value: string): boolean {
  return isIP(value) !== 0 || /^[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/i.test(value);
}

function isEndpoint(value: string): boolean {
  // Only what a request line carries unescaped: another text would never be equal to a request's path.
  const isPlain = /^(?:\/[\w.~!$&'()*+,;=:@%-]+)+$/.test(value);
  return isPlain && !/\/\.\.?(?:\/|$)/.test(value) && !probePaths.includes(value);
}

/** Where the HTTP server listens and whom it lets in. */
export const httpAccessFields = {
  httpProtocol: option(choice(['http', 'https']), {
    group,
    default: 'http',
    description: 'Whether the server speaks plain HTTP or TLS; `https` needs a certificate.',
  }),
  httpHost: option(text('a host name or an IP address, without brackets and port', isHost), {
    group,
    value: 'host',
    default: '127.0.0.1',
    flag: 'host',
    environment: [{ name: 'PLAYWRIGHT_MCP_HOST' }],
    description:
      'The address to listen on; `0.0.0.0` or `::` is every network, which needs a token. The flag `--host` also chooses Streamable HTTP.',
  }),
  httpPort: option(integer(0, 65_535), {
    group,
    default: 3000,
    flag: 'port',
    environment: [{ name: 'PLAYWRIGHT_MCP_PORT' }],
    description:
      'The port to listen on; 0 takes a free one, which the line `Listening on` names. The flag `--port` also chooses Streamable HTTP.',
  }),
  httpEndpoint: option(
    text(
      `an absolute path such as /mcp, without query, white space and slash at its end, and none of ${probePaths.join(', ')}`,
      isEndpoint,
    ),
    {
      group,
      value: 'path',
      default: '/mcp',
      description: 'The path of the MCP endpoint; any other path is answered 404 `http_path`.',
    },
  ),
  httpAllowedHosts: option(
    list('host names, each alone or with a port, or "*"', /^(?:\*|(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?)$/i, ','),
    {
      group,
      value: 'hosts',
      default: [],
      flag: 'allowed-hosts',
      environment: [{ name: 'PLAYWRIGHT_MCP_ALLOWED_HOSTS' }],
      description:
        'Further names by which clients reach the server, such as `mcp.example.org` (any port) or `mcp.example.org:8443`; `*` turns the check off. A request to another `Host` is answered 403 `host_refused`; the loopback names on a loopback address and the IP address that was connected to always pass.',
    },
  ),
  httpAllowedOrigins: option(
    list('origins such as https://app.example.org', /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@,*]+$/i, ','),
    {
      group,
      value: 'origins',
      default: [],
      description:
        'Web pages that may use the server from a browser (CORS). Another `Origin` than the own one is answered 403 `origin_refused`.',
    },
  ),
  httpAuthToken: option(list('bearer tokens of at least 16 visible ASCII characters each', /^[\x21-\x7e]{16,}$/, ','), {
    group,
    value: 'tokens',
    default: [],
    secret: 'whole',
    description:
      'Bearer tokens, one of which a client must send; a request without is answered 401 `unauthorized`. A session belongs to the token that opened it. Better given by the environment or a file, since other users can see flags.',
  }),
  httpAuthTokenFile: option(path(), {
    group,
    unset: 'none',
    description:
      'A file with further bearer tokens, one a line (at least 16 visible ASCII characters), `#` for comments; read again on SIGHUP, which also ends the sessions of tokens that are gone.',
  }),
  httpAllowUnauthenticated: option(toggle(), {
    group,
    default: false,
    description:
      'Serve without a token on an address that others can reach; otherwise the program refuses to start there.',
  }),
  httpsCert: option(path(), {
    group,
    unset: 'none',
    description: 'The certificate chain in PEM form; read again on SIGHUP.',
  }),
  httpsKey: option(path(), {
    group,
    unset: 'none',
    description: 'The private key of the certificate in PEM form; read again on SIGHUP.',
  }),
  httpsPfx: option(path(), {
    group,
    unset: 'none',
    description: 'Certificate and key in one PFX (PKCS #12) file, in place of the PEM pair; read again on SIGHUP.',
  }),
  httpsPassphrase: option(
    text('a text of at least one character', (value) => value !== ''),
    {
      group,
      unset: 'none',
      secret: 'whole',
      description:
        'The passphrase of the key or PFX file. Better given by the environment, since other users can see flags.',
    },
  ),
};
