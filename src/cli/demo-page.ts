/** The page that the demo opens: things a model can use, and what a page can tell about the browser. */
export const demoPage = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>cloakbrowser-mcp demo</title>
    <link rel="icon" href="data:,">
    <style>body { font: 18px sans-serif; margin: 3em; } input, button { font: inherit; }</style>
  </head>
  <body>
    <h1>It works</h1>
    <p>This page came from the demo, through Playwright MCP and a real browser.</p>
    <form><label>Your name <input name="name"></label> <button type="button">Say hello</button></form>
    <h2>What a page can tell</h2>
    <ul></ul>
    <script>
      const facts = [
        'navigator.webdriver is ' + navigator.webdriver,
        'the user agent ' + (/headless/i.test(navigator.userAgent) ? 'says headless' : 'does not say headless'),
      ];
      for (const fact of facts) document.querySelector('ul').append(
        Object.assign(document.createElement('li'), { textContent: fact }),
      );
    </script>
  </body>
</html>
`;
