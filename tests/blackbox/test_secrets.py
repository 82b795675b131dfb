"""Nothing secret reaches a record that people attach to bug reports, and what is none stays as it is."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepfit.blackbox import secrets

from .. import stage

SECRET = "s3cr3tValue0123456789abcdef"
UPPER = SECRET.upper()[:16]
WORD = "correcthorse"  # a secret that looks like nothing

# Command lines, as words: no word of what comes out holds SECRET, UPPER or WORD.
MASKED_ARGV = [
    ["train.py", "--token", SECRET],
    ["train.py", "--token", WORD],
    ["train.py", f"--api-key={SECRET}"],
    ["train.py", f"--wandb_api_key={SECRET}"],
    ["train.py", f"--wandbApiKey={SECRET}"],
    ["train.py", f"password={WORD}"],
    ["train.py", f"DB_PASSWORD={WORD}"],
    ["train.py", f"db.password={WORD}"],
    ["train.py", "--passphrase", WORD],
    ["train.py", f"--passphrase={WORD}"],
    ["train.py", "--client-secret", WORD],
    ["train.py", "--secret", "12345678"[:0] + WORD],
    ["train.py", "--key", SECRET],
    ["train.py", "--auth", SECRET],
    ["train.py", "--auth-token", SECRET, "--epochs", "3"],
    ["train.py", f"https://user:{WORD}@host/data"],
    ["train.py", f"postgresql+psycopg2://me:{WORD}@db:5432/x"],
    ["train.py", f"https://{SECRET}@github.com/a/b.git"],
    ["train.py", f"https://ghp_{SECRET}@github.com/a/b.git"],
    ["train.py", f"mongodb+srv://app:{WORD}@cluster0.example.net"],
    ["train.py", f"redis://:{WORD}@cache:6379/0"],
    ["train.py", f"s3://AKIA{UPPER}"],
    ["train.py", f"hf_{SECRET}"],
    ["train.py", f"https://x.blob.core.windows.net/c?sv=2022&sig={SECRET}%3D"],
    ["train.py", f"https://s3/b/k?X-Amz-Credential={UPPER}&X-Amz-Signature={SECRET}"],
    ["train.py", f"https://storage/b?X-Goog-Signature={SECRET}&x=1"],
    ["train.py", f"https://api/x?access_token={SECRET}"],
    ["train.py", f"https://api/x?a=1&key={SECRET}"],
    ["train.py", json.dumps({"token": SECRET, "epochs": 3})],
    ["train.py", json.dumps({"db": {"password": WORD}})],
    ["train.py", json.dumps(json.dumps({"api_key": SECRET}))],
    ["train.py", str({"secret": WORD})],
    ["train.py", f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={SECRET}==;EndpointSuffix=y"],
    ["train.py", f"Server=db;Database=x;Uid=me;Pwd={WORD};"],
    ["train.py", f"Server=db;User Id=me;Password={WORD};"],
    ["train.py", f"SharedAccessKey={SECRET}="],
    ["sh", "-c", f"export API_KEY={SECRET}; python train.py"],
    ["sh", "-c", f"HF_TOKEN={WORD} python train.py --epochs 3"],
    ["sh", "-c", f"python train.py --token {WORD} --epochs 3"],
    ["sh", "-c", f"mysql -u root -p{WORD} db"],
    ["sh", "-c", f"curl -u me:{WORD} https://x"],
    ["curl", "-H", f"token: {SECRET}"],
    ["curl", "-H", f"Authorization: Bearer {SECRET}"],
    ["curl", "-H", f"Authorization: Basic {SECRET}=="],
    ["curl", "-H", f"X-Api-Key: {SECRET}"],
    ["curl", "-H", f"Cookie: session={WORD}; other=1"],
    ["curl", "-u", f"me:{WORD}", "https://x"],
    ["curl", f"-ume:{WORD}", "https://x"],
    ["mysql", "-u", "root", f"-p{WORD}", "db"],
    ["/usr/bin/mysqldump", f"-p{WORD}"],
    ["sshpass", "-p", WORD, "ssh", "host"],
    ["sshpass", f"-p{WORD}", "ssh", "host"],
    ["docker", "login", "-u", "me", "-p", WORD],
    ["az", "login", "-u", "me", "-p", WORD],
    ["redis-cli", "-a", WORD, "ping"],
    ["mongosh", "-u", "me", "-p", WORD],
    ["ldapsearch", "-w", WORD, "-x"],
    ["smbclient", "-U", f"me%{WORD}", "//x/y"],
    ["twine", "upload", "-p", WORD],
    ["zip", "-P", WORD, "x.zip", "a"],
    ["htpasswd", "-b", "file", "me", WORD],
    ["sqlcmd", "-P", WORD],
    ["java", f"-Dpassword={WORD}"],
    ["train.py", f"PGPASSWORD={WORD}"],
    ["docker", "run", "-e", f"PASS={WORD}", "image"],
    ["kubectl", "create", "secret", "generic", "x", f"--from-literal=password={WORD}"],
    ["train.py", f"https://x/#access_token={SECRET}"],
    ["train.py", f"https://x/?api-key={SECRET}"],
    ["train.py", f"https://me:p@{WORD}@host/x"],
]

# Any text: messages of exceptions, lines of output, findings.
MASKED_TEXT = [
    f"HTTPError: 401 for url: https://api/x?token={SECRET}",
    f"could not connect to postgres://me:{WORD}@db/x",
    f"password={WORD} rejected",
    f"ValueError: bad token: {SECRET}",
    f"Authorization: Bearer {SECRET}",
    f"{{'Authorization': 'Bearer {SECRET}'}}",
    f'{{"aws_secret_access_key": "{SECRET}"}}',
    f"aws_secret_access_key = {SECRET}".replace(" = ", "="),
    f"OPENAI_API_KEY=sk-{SECRET}",
    f"sk-ant-{SECRET}",
    f"xoxb-12345678-{SECRET}",
    f"glpat-{SECRET}",
    f"AIza{SECRET}{SECRET}",
    f"ya29.{SECRET}",
    f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.{SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    f"https://hooks.slack.com/services/T0/B0/{SECRET}",
    f"npm_{SECRET}",
    f"pypi-{SECRET}",
    f"login failed for user me with passwd:{WORD}",
    f"token: {WORD}",
    f"Set-Cookie: sid={WORD}; Path=/",
    f"connecting with Pwd={WORD};Encrypt=yes",
    f"aws_secret_access_key = {SECRET}",
    f"password : {WORD}",
    f"DB_PASS={WORD} SMTP_PASS={WORD}",
    f"HF_TOKEN_2={WORD} GITHUB_TOKEN1={WORD} password1={WORD}",
    f"API_TOKEN_PROD={WORD} SECRET_KEY_BASE={WORD} PASSWORD_DB={WORD}",
    f"mypassword={WORD}",
    f'password="battery {WORD}"',
    f"password = b'{WORD}'",
    f"password=${WORD}!",
    f"<password>{WORD}</password>",
    f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{SECRET}\n-----END PGP PRIVATE KEY BLOCK-----",
    f"gsk_{SECRET}",
    f"nvapi-{SECRET}",
    f"dckr_pat_{SECRET}",
    f"sk_live_{SECRET}",
]

INNOCENT = [
    "--epochs 3", "--tokenizer bert-base-uncased", "--max-tokens 512", "--max_new_tokens=100", "--keys-file=a.txt",
    "num_tokens: 81920", "tokens=5.1M", "--token-length 128", "KeyError: 'loss'", "KeyError: key", "key=loss",
    "--key loss", "sort --key=2", "primary_key=id", "--author Jane", "authority=example.org", "--bypass yes",
    "compass: north", "passes=3", "--pass 2", "monkey=1", "keyboard: us", "secretary=Ann", "signature=serving_default",
    "signature: (x, y) -> z", "https://example.org/a/b?page=2&sort=key", "https://user@example.org/x",
    "ssh://git@github.com/org/repo.git", "git@github.com:org/repo.git", "s3://bucket/path/to/data", "gs://bucket/x",
    "password: must not be empty", "token: None", "token=None", "api_key=None", "password=${DB_PASSWORD}",
    "token=<redacted>", "--password-file /run/secrets/db", "mysql -u root -h db -P 3306", "psql -p 5432",
    "docker run -p 8080:80 image", "ssh -p 2222 host", "curl -u me https://x", "python -u train.py", "cp -p a b",
    "Invalid token '<' at line 3", "unexpected token: identifier", "tokens per second: 1234.5", "auth: required",
    "hidden_size=768 num_keys=12", "learning_rate=0.001 loss=nan", "step 100/1000 - loss: 0.5 - accuracy: 0.9",
    "/home/me/secret_project/train.py", "File \"/home/me/token.py\", line 3", "import keyring, passlib",
    "class TokenError",
    "--pad-token PAD", "mask_token=mask", "--eos_token eos", "stop_token=newline", "Unknown token: hello",
    "def f(token: Tensor) -> None", "--data-key image", "PWD=/home/me/x", "hf_model_of_ours_with_words",
    "sk_model_checkpoint_00012_final", "pk_embedding_dim_of_model_0001", "dataset://imagenet_train_2012_full@v2",
    "sas: 9.4", "session_id=20231120", "forward_pass=done", "token = get_token(path)", "password = os.environ[x]",
    "f(password: Optional[str] = None)", "password={password}", "token=$TOKEN", "sk-learn and scikit-learn",
    "ghost_writer_2024_edition_long_name", "session 3 of 5", "cookie_policy=strict",
]  # fmt: skip


def clean(text: str) -> bool:
    return not any(secret in text for secret in (SECRET, UPPER, WORD))


def test_there_are_as_many_forms_as_were_promised():
    assert len(MASKED_ARGV) + len(MASKED_TEXT) >= 60 and len(INNOCENT) >= 40


@pytest.mark.parametrize("argv", MASKED_ARGV, ids=" ".join)
def test_secrets_on_the_command_line_are_masked(argv):
    masked = secrets.mask_argv(argv)
    assert clean(" ".join(masked)), masked
    assert len(masked) == len(argv) and masked[0] == argv[0]


@pytest.mark.parametrize("text", MASKED_TEXT)
def test_secrets_in_a_text_are_masked(text):
    masked = secrets.mask_text(text)
    assert clean(masked) and secrets.MASK in masked
    assert secrets.mask_text(masked) == masked, "masking once is enough"


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text):
    assert secrets.mask_text(text) == text
    assert secrets.mask_argv(text.split()) == text.split()


@pytest.mark.parametrize("letter", ["a", "=", "token", "key=", "://", "a=", "-p ", "'\"", "token: x ", "mysql -p"])
def test_long_texts_cost_little(letter):
    (masked,) = secrets.mask_argv([letter * 200_000])
    assert len(masked) <= secrets.LONGEST + 500
    secrets.mask_text(letter * 20_000)  # (pytest's own time limit holds it to that)


@given(st.text(max_size=200))
def test_any_text_can_be_looked_through(text):
    secrets.mask_text(text)
    secrets.mask_argv(text.split())


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20)))
def test_environment_is_by_allow_list(environment):
    assert set(secrets.allowed_environment(environment)) <= {
        name for name in environment if secrets.allowed().fullmatch(name)
    }


def test_json_in_an_environment():
    known = secrets.allowed_environment({"TF_CONFIG": json.dumps({"token": SECRET, "task": {"index": 1}})})
    assert clean(known["TF_CONFIG"]) and '"index": 1' in known["TF_CONFIG"]


def test_nothing_of_it_in_a_real_record(runs):
    """Not in the command line, nor the environment, nor the exception that ends it."""
    environment = {"AWS_SECRET_ACCESS_KEY": SECRET, "MY_PASSWORD": SECRET, "HF_TOKEN": SECRET, "OMP_NUM_THREADS": "2"}
    code = "import os; raise ValueError('https://me:' + os.environ['HF_TOKEN'] + '@host refused')"
    outcome = stage.run(runs, [sys.executable, "-c", code, "--token", SECRET], **environment)
    for path in outcome.directory.rglob("*"):
        if path.is_file() and path.name != "stderr":  # what it printed itself is kept as it was printed
            assert SECRET.encode() not in path.read_bytes(), path
    (head,) = outcome.events("run")
    assert head["environment"]["OMP_NUM_THREADS"] == "2"
    verdict = outcome.why()
    assert SECRET not in json.dumps(verdict) and "***@host refused" in json.dumps(verdict)
    assert SECRET not in json.dumps(stage.keepfit_json(runs, "runs"))
    said = outcome.stderr.split("\nkeepfit: ")[1]
    assert SECRET not in said
