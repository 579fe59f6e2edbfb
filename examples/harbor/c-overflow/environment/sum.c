#include <stdio.h>
#include <stdlib.h>
int main(int n, char **v) {
    int s = 0;
    for (int i = 1; i < n; i++) s += atoi(v[i]);
    printf("%d\n", s);
}
