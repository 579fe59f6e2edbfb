mkdir repo && cd repo
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
git init -q .
echo first > secret.txt && git add . && git commit -q -m one
echo "the blue heron" > secret.txt && git commit -q -a -m two
git rm -q secret.txt && git commit -q -m three
